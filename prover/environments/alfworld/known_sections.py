"""The hashes of the domain's and the grammar's sections in the two releases, as `release.sections` makes them.

Made from all 340 games of a 2021 data set (which agree) and from the `alfworld` package 0.4.2.
"""

from collections.abc import Mapping

from prover.environments.alfworld.wording import Release

_BOTH: Mapping[str, str] = {
    "domain: domain": "6c4bb8f94656ec88",
    "domain: requirements": "0d18e4e1c4ea680b",
    "domain: types": "5c2cb8ad214d0fcb",
    "domain: predicates": "608c76ff3caef2cc",
    "domain: functions": "7becaef417955d18",
    "domain: action look": "1c1ae27b43f04563",
    "domain: action inventory": "687fdccbaef1cee9",
    "domain: action examinereceptacle": "cd975ff186d67a5d",
    "domain: action examineobject": "9ad624fe85feda61",
    "domain: action gotolocation": "a179cc2aebfafeaa",
    "domain: action openobject": "b715691b9f52b2e2",
    "domain: action closeobject": "4e9212cc0e8732fd",
    "domain: action pickupobject": "c8a369f4b3e09f85",
    "domain: action putobject": "03684ef35600f18e",
    "domain: action heatobject": "f00a0816401d3ad0",
    "domain: action coolobject": "341b5815273cfe7a",
    "domain: action toggleobject": "7de50e89a8834157",
    "domain: action sliceobject": "1df0320801f2c617",
    "grammar: action GotoLocation": "ee797e65032c9d94",
    "grammar: action OpenObject": "5702ad51702e6cdc",
    "grammar: action CloseObject": "4231888f9dbc0e08",
    "grammar: action PickupObject": "79f6aca2aae55b79",
    "grammar: action PickupObjectFromReceptacleObject": "f9ff5dea377d56cd",
    "grammar: action PickupEmptyReceptacleObject": "a3e4927cffb57543",
    "grammar: action PickupFullReceptacleObject": "f1de05ba0f05944e",
    "grammar: action PutObjectInReceptacleObject": "b1e906053d558ce3",
    "grammar: action PutFullReceptacleObjectInReceptacle": "16f66780ee25a839",
    "grammar: action inventory": "8311a5b63ff21d86",
    "grammar: action examineReceptacle": "35154d19da7d5c1d",
    "grammar: action examineObject": "dc26697ce64b7697",
    "grammar: action ToggleObject": "8faa974089bc7c0d",
    "grammar: action HeatObject": "9584b03fd05eaf03",
    "grammar: action CleanObject": "01335134665e2e05",
    "grammar: action CoolObject": "af41d99a0248851c",
    "grammar: action SliceObject": "7f62245fbcb4e955",
    "grammar: action look": "c5073f3070db3225",
}

KNOWN_SECTIONS: Mapping[Release, Mapping[str, str]] = {
    "2021": {
        **_BOTH,
        "domain: action cleanobject": "cbee68c8c72dbffd",
        "grammar: grammar": "fd47424d9e47e004",
        "grammar: action PutObject": "b045f40aa4d39c1f",
        "grammar: action PutEmptyReceptacleObjectinReceptacle": "26de6600f10ee6c4",
    },
    "current": {
        **_BOTH,
        "domain: action cleanobject": "fba9a987e56b69f6",
        "domain: action help": "6b049c9eda3b5b44",
        "grammar: grammar": "5349c93893adc528",
        "grammar: action PutObject": "f534a148b50c5e8d",
        "grammar: action PutEmptyReceptacleObjectinReceptacle": "d3a5b885f6a75944",
        "grammar: action help": "6dd70c3152b4ffae",
    },
}
"""Release -> section -> hash."""
