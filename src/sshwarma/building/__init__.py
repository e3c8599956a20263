"""Rooms as folders of plain files, which people keep in git."""
