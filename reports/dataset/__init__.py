"""Recorded episodes as data sets to train on."""
