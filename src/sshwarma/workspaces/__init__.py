"""The files of rooms: blobs by their hash, and manifests of paths and blobs."""
