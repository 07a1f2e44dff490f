"""Adapters beside a frozen matrix."""
