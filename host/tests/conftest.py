"""Settings for every room's tests."""

from hypothesis import settings
from support.sdks import claude as claude
from support.sdks import client as client
from support.snapshots import snapshot as snapshot  # in syrupy's place: snapshots are goldens

# How long an example takes says nothing on a shared machine.
settings.register_profile("ds4", deadline=None)
settings.load_profile("ds4")
