"""OAuth providers of the SDK, adapted to sshwarma.

They store tokens in `CredentialStore`, follow the authorization server and scope of the settings,
and request no more scopes than needed.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from importlib.metadata import version
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import OAuthFlowError, TokenStorage
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import extract_scope_from_www_auth, issuers_match, union_scopes
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)
from mcp.shared.auth_utils import calculate_token_expiry
from pydantic import AnyUrl
from typing_extensions import override

from sshwarma.mcp._sdk import AuthorizationSteps, ClientCredentialsSteps
from sshwarma.mcp.client.address import check_url
from sshwarma.mcp.client.credentials import AuthChallenge, CredentialStore
from sshwarma.mcp.client.environment import expand_variables
from sshwarma.mcp.client.pending_sign_in import ClientMetadata, PendingSignIn, SignInPage
from sshwarma.mcp.client.sanitize import strip_invisible
from sshwarma.settings import McpSettings

MAX_SCOPE_CHARACTERS: Final = 200


class OAuthStorage(TokenStorage):
    """Token storage of the SDK's providers; `client_metadata` is None for renewals."""

    def __init__(
        self, settings: McpSettings, credentials: CredentialStore, metadata: ClientMetadata | None
    ) -> None:
        self._settings = settings
        self._credentials = credentials
        self._client_metadata = metadata
        self.context: OAuthContext | None = None

    @override
    async def get_tokens(self) -> OAuthToken | None:
        tokens = self._credentials.stored.tokens
        if self._settings.oauth_machine:
            return None  # client credentials request a new token and use no refresh token
        return OAuthToken.model_validate(tokens) if tokens else None

    @override
    async def set_tokens(self, tokens: OAuthToken) -> None:
        context, stored = self.context, self._credentials.stored
        assert context is not None  # noqa: S101 - it is set where this is made
        credentials = replace(
            stored,
            tokens=dump_model(tokens),
            expires_at=calculate_token_expiry(tokens.expires_in),
            issuer=dump_model(context.oauth_metadata),
            resource=dump_model(context.protected_resource_metadata),
            client=dump_model(context.client_info),
            ended="",
        )
        if self._settings.oauth_client_secret and credentials.client is not None:
            credentials.client.pop(
                "client_secret", None
            )  # it is read from the environment each time
        if self._client_metadata is None:
            await self._credentials.store(credentials)
            return
        async with self._credentials.lock:  # a renewal of the old tokens must not overwrite these
            await self._credentials.store(credentials)

    @override
    async def get_client_info(self) -> OAuthClientInformationFull | None:
        settings, stored = self._settings, self._credentials.stored
        if settings.oauth_client_id:
            return make_registered_client(settings, self._client_metadata)
        if stored.client is None:
            return None
        client = OAuthClientInformationFull.model_validate(stored.client)
        if self._client_metadata is None:
            return client
        has_other_redirect = client.redirect_uris and self._client_metadata.redirect not in map(
            str, client.redirect_uris
        )
        is_expired = (
            client.client_secret_expires_at and client.client_secret_expires_at <= time.time()
        )
        return None if has_other_redirect or is_expired else client

    @override
    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        stored = self._credentials.stored
        await self._credentials.store(replace(stored, client=dump_model(client_info)))


class UserOAuthProvider(AuthorizationSteps):
    """Authorization-code provider for a person; with `under_way` None it only renews."""

    def __init__(
        self, settings: McpSettings, credentials: CredentialStore, under_way: PendingSignIn | None
    ) -> None:
        client = under_way.client_metadata if under_way is not None else ClientMetadata()
        local = urlsplit(client.redirect).scheme == "http"
        storage = OAuthStorage(settings, credentials, client if under_way is not None else None)
        super().__init__(
            settings.url or "",
            OAuthClientMetadata(
                redirect_uris=[AnyUrl(client.redirect)],
                client_name="sshwarma",
                application_type="native" if local else "web",
                software_id="sshwarma",
                software_version=version("sshwarma"),
            ),
            storage,
            self._open_page,
            self._wait_for_response,
            client_metadata_url=client.document or None,
        )
        storage.context = self.context
        self._settings = settings
        self._pending = under_way
        self._challenge = credentials.challenge

    @override
    def select_authorization_server(self, advertised: list[str]) -> str:
        return _choose_authorization_server(advertised, self._settings.oauth_issuer)

    @override
    def prepare_authorization(self) -> None:
        context, settings = self.context, self._settings
        metadata = context.oauth_metadata
        if settings.oauth_issuer:
            _check_issuer(metadata, settings.oauth_issuer)
        if metadata is not None and "S256" not in (metadata.code_challenge_methods_supported or ()):
            raise OAuthFlowError("its authorization server does not support PKCE with S256")
        if context.client_info is not None and settings.oauth_client_secret:
            context.client_info.token_endpoint_auth_method = _choose_auth_method(metadata)
        context.client_metadata.scope = self._scope()

    def _scope(self) -> str | None:
        """Return the scope of the settings or of the server's challenge.

        If neither names one, the SDK would request every scope; this requests none, or only
        `offline_access` if the authorization server supports it.
        """
        context, challenged = self.context, self._challenge
        prm, metadata = context.protected_resource_metadata, context.oauth_metadata
        scope = None
        if challenged is not None:
            scope = extract_scope_from_www_auth(make_challenge_response(challenged, None))
        if self._settings.oauth_scope:
            extra_scope = scope if challenged is not None and challenged.status == 403 else None
            return union_scopes(self._settings.oauth_scope, extra_scope)
        if scope or (prm is not None and prm.scopes_supported is not None):
            return context.client_metadata.scope
        offline = metadata is not None and "offline_access" in (metadata.scopes_supported or ())
        return "offline_access" if offline else None

    async def _open_page(self, url: str) -> None:
        if self._pending is None:
            raise OAuthFlowError("it requires a person to sign in")
        check_oauth_url(url, self._settings)
        metadata = self.context.oauth_metadata
        self._pending.set_page(
            SignInPage(
                check_url(url).geturl(),
                self._pending.client_metadata.redirect,
                str(metadata.issuer) if metadata is not None else "",
                strip_invisible(self.context.client_metadata.scope or "")[:MAX_SCOPE_CHARACTERS],
            )
        )

    async def _wait_for_response(self) -> AuthorizationCodeResult:
        assert self._pending is not None  # noqa: S101 - `_open_page` has checked it
        response = await self._pending.wait_for_redirect()
        return AuthorizationCodeResult(
            code=response.code, state=response.state, iss=response.issuer
        )


class MachineOAuthProvider(ClientCredentialsSteps):
    """Client-credentials provider, for servers that need no person."""

    def __init__(self, settings: McpSettings, credentials: CredentialStore) -> None:
        storage = OAuthStorage(settings, credentials, None)
        super().__init__(
            settings.url or "",
            storage,
            settings.oauth_client_id,
            _read_client_secret(settings),
            scope=settings.oauth_scope or None,
            issuer=settings.oauth_issuer,
        )
        storage.context = self.context
        self._wanted_issuer = settings.oauth_issuer
        self._wanted_scope = settings.oauth_scope
        self.expire_token()

    @override
    def select_authorization_server(self, advertised: list[str]) -> str:
        return _choose_authorization_server(advertised, self._wanted_issuer)

    @override
    def prepare_authorization(self) -> None:
        if self.context.client_info is not None:
            method = _choose_auth_method(self.context.oauth_metadata)
            self.context.client_info.token_endpoint_auth_method = method
        if self._wanted_scope:
            self.context.client_metadata.scope = self._wanted_scope


def make_challenge_response(
    challenge: AuthChallenge, request: httpx2.Request | None
) -> httpx2.Response:
    """Return a response that repeats a challenge, for the SDK's OAuth flow."""
    headers = {"WWW-Authenticate": challenge.header} if challenge.header else {}
    return httpx2.Response(challenge.status, headers=headers, request=request)


def make_registered_client(
    settings: McpSettings, metadata: ClientMetadata | None
) -> OAuthClientInformationFull:
    """Return the client that an owner has registered, as the settings name it."""
    return OAuthClientInformationFull(
        client_id=settings.oauth_client_id,
        client_secret=_read_client_secret(settings) or None,
        redirect_uris=[AnyUrl(metadata.redirect)] if metadata is not None else None,
        token_endpoint_auth_method="client_secret_basic"
        if settings.oauth_client_secret
        else "none",
        issuer=settings.oauth_issuer or None,
    )


def _read_client_secret(settings: McpSettings) -> str:
    return expand_variables({"secret": settings.oauth_client_secret}, os.environ)["secret"]


def _choose_auth_method(metadata: OAuthMetadata | None) -> str:
    """Return how to send the client secret, as the authorization server supports."""
    methods = metadata.token_endpoint_auth_methods_supported if metadata is not None else None
    only_post = methods and "client_secret_basic" not in methods and "client_secret_post" in methods
    return "client_secret_post" if only_post else "client_secret_basic"


def _choose_authorization_server(advertised: list[str], issuer: str) -> str:
    """Return the authorization server of the settings, else the first advertised."""
    if not issuer:
        return advertised[0]
    for server in advertised:
        if issuers_match(server, issuer):
            return server
    raise OAuthFlowError(f"its authorization server is {advertised[0]}, not {issuer}")


def _check_issuer(metadata: OAuthMetadata | None, issuer: str) -> None:
    if metadata is None or not issuers_match(str(metadata.issuer), issuer):
        server = metadata.issuer if metadata is not None else "an unknown authorization server"
        raise OAuthFlowError(f"its authorization server is {server}, not {issuer}")


def check_oauth_url(url: str, settings: McpSettings) -> None:
    """Raise unless a URL may be used for signing in.

    It must be http or https, and https if the server's own URL is.

    Raises:
        Invalid: if it is not an http or https URL.
        OAuthFlowError: if it lacks TLS and the server's URL has it.
    """
    parts = check_url(url)
    if parts.scheme == "http" and urlsplit(settings.url or "").scheme == "https":
        raise OAuthFlowError(f"{parts.netloc} does not use TLS")


def dump_model(model: Any) -> dict[str, Any] | None:
    """Return a model of the SDK as a JSON object; None for None."""
    if model is None:
        return None
    data: dict[str, Any] = model.model_dump(mode="json", exclude_none=True)
    return data
