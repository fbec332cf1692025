"""What pytest should not look into here. No plugins: in an editable install this file is not the root conftest."""

collect_ignore = ["benchmarks", "scripts"]
