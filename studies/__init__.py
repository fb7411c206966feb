"""Measurements that pages of docs/ report, and the commands that write these pages; no part of the package."""
