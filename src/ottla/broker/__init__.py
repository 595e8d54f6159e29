"""Requests to decisions: routes, dispatch, handlers."""
