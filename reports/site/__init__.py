"""A folder of runs as a static site: an index that grows from job to job, and the page of each run."""
