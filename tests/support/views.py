"""Looking up the views of results in tests."""

from sshwarma.verbs import views


def has_view(of: type) -> bool:
    """Return whether a view is declared for a result type."""
    return of in views._views
