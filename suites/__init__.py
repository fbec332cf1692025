"""The suites: a folder each, with a manifest (suite.toml) and the module that pytest collects."""
