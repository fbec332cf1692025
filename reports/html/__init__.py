"""One file that a browser shows: a report as HTML, with everything that it needs inside."""
