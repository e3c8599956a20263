"""The services of a request, as the layers below the verbs see them."""


class RequestServices:
    """Base class of `sshwarma.services.Services`, which requests carry to the verbs.

    The layers below the verbs pass the services on and do not read them.
    """

    __slots__ = ()
