"""Tokens for Amazon MSK, signed by AWS's own library, which is an extra: pip install 'farshore[aws]'."""

from __future__ import annotations

import logging

from farshore.config.secret import Secret
from farshore.config.security import MskIam
from farshore.errors import TokenRefused

_SESSION_NAME = "farshore"
_WITHIN_SECONDS = 10

# At DEBUG botocore prints what it signs and the signature, which together are the token. A level could be lowered
# again, a filter stays.
for _name in ("botocore.auth", "botocore.endpoint", "botocore.parsers", "botocore.hooks"):
    logging.getLogger(_name).addFilter(lambda record: record.levelno > logging.DEBUG)


def sign_token(login: MskIam) -> tuple[Secret, float]:
    """A token, and the time in seconds since 1970 when it ends. Raises TokenRefused.

    AWS is asked where a role is to be assumed, or where credentials are those of the machine.
    """
    try:
        from aws_msk_iam_sasl_signer.MSKAuthTokenProvider import generate_auth_token_from_credentials_provider
        from botocore.credentials import CredentialProvider
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError as error:
        raise TokenRefused(
            f"AWS_MSK_IAM needs AWS's signer, which is not installed here ({error}): pip install 'farshore[aws]'"
        ) from None

    class Provider(CredentialProvider):  # type: ignore[misc]
        def load(self) -> object:
            return _credentials(login)

    try:
        token, expires_at_ms = generate_auth_token_from_credentials_provider(login.region, Provider())
    except (BotoCoreError, ClientError, ValueError) as error:
        whose = f"the role {login.role_arn}" if login.role_arn else f"the profile {login.profile or 'of this machine'}"
        raise TokenRefused(f"no token for Amazon MSK in {login.region} with {whose}: {error}") from None
    return Secret(token), expires_at_ms / 1000


def _credentials(login: MskIam) -> object:
    import boto3
    from botocore.config import Config
    from botocore.credentials import Credentials

    session = boto3.Session(profile_name=login.profile)
    own = session.get_credentials()
    if own is None:
        raise TokenRefused(
            "no AWS credentials were found: set awsProfileName, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run "
            "where the machine or pod has a role"
        )
    if login.role_arn is None:
        return own
    bounded = Config(connect_timeout=_WITHIN_SECONDS, read_timeout=_WITHIN_SECONDS, retries={"max_attempts": 2})
    sts = session.client("sts", region_name=login.sts_region or login.region, config=bounded)
    external = {"ExternalId": login.role_external_id} if login.role_external_id else {}
    name = login.role_session or _SESSION_NAME
    assumed = sts.assume_role(RoleArn=login.role_arn, RoleSessionName=name, **external)["Credentials"]
    return Credentials(assumed["AccessKeyId"], assumed["SecretAccessKey"], assumed["SessionToken"])
