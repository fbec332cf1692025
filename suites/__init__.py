"""The suites: a folder for each benchmark, with a manifest (.toml) for each of its suites."""
