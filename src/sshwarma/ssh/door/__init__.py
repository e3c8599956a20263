"""The world's side of ssh: login, shell, one-shot commands, services."""
