"""AWS_MSK_IAM, the login of Amazon MSK: options of AWS's login module to where tokens come from.

The same brokers take OAUTHBEARER with a token that is signed by the same credentials, so that is what is sent to them.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping

from farshore.config.connection_keys import ConnectionKeys, server_address
from farshore.config.oauth import JAAS, MskIam

MODULE = "software.amazon.msk.auth.iam.IAMLoginModule"
SIGNER = "aws_msk_iam_sasl_signer"

_REGION = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?:")
_TRIED_AGAIN = ("awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs")
_REFUSED = ("awsRoleAccessKeyId", "awsRoleSecretAccessKey", "awsRoleSessionToken")
_OPTIONS = {
    "awsProfileName": "profile",
    "awsRoleArn": "role_arn",
    "awsRoleSessionName": "role_session",
    "awsRoleExternalId": "role_external_id",
    "awsStsRegion": "sts_region",
}


def read_msk_iam(keys: ConnectionKeys, options: Mapping[str, str]) -> MskIam | None:
    """Which credentials sign, and for which region; None after an error."""
    complaints = [
        f"{JAAS}: the option {name} is refused: credentials come from a profile, the environment or the machine"
        for name in options
        if name in _REFUSED
    ]
    for name in options:
        if name not in (*_OPTIONS, *_TRIED_AGAIN, *_REFUSED):
            keys.warning(JAAS, f"{JAAS}: AWS's login module has no option {name}")
    given = {field: options[name] for name, field in _OPTIONS.items() if options.get(name)}
    servers = keys.elements("bootstrap.servers")
    regions = {match[1] for server in servers if (match := _REGION.search(f"{server}:"))}
    region = min(regions) if len(regions) == 1 else given.get("sts_region")
    if region is None and servers and all(map(server_address, servers)):  # else that is what has to be mended first
        complaints.append(
            f"{JAAS}: the region of the cluster can be told neither from bootstrap.servers nor from an option: add "
            'awsStsRegion="REGION" to it'
        )
    for complaint in complaints:
        keys.error(JAAS, complaint)
    if importlib.util.find_spec(SIGNER) is None:
        keys.absent(
            "sasl.mechanism", "AWS_MSK_IAM needs AWS's signer, here and wherever slots run: pip install 'farshore[aws]'"
        )
    if complaints:
        return None
    profile, role_arn, role_session, role_external_id, sts_region = (given.get(field) for field in _OPTIONS.values())
    return MskIam(region or "", profile, role_arn, role_session, role_external_id, sts_region)
