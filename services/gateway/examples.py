"""The examples that OpenAPI shows. A test posts them."""

from pydantic import JsonValue

OPTIONS_EXAMPLE: dict[str, JsonValue] = {
    "judge": "contrast",
    "mode": "adaptive",
    "samples": 8,
    "lambda": 1.0,
    "max_turns": 50,
    "policy": "embedded",
    "continuations": "internal",
    "fidelity": "exact",
}


def _turn(observation: str, command: str, token_ids: list[JsonValue], logprobs: list[JsonValue]) -> JsonValue:
    return {
        "observation": observation,
        "text": f"{command}\n",
        "action": command,
        "valid": True,
        "reward": 0.0,
        "context_token_ids": None,
        "token_ids": token_ids,
        "logprobs": logprobs,
        "digest": None,
    }


_OPENING = "You are in the middle of a room. Looking quickly around you, you see a desk 1, and a shelf 1."

SUBMISSION_EXAMPLE: dict[str, JsonValue] = {
    "group": {
        "task": {
            "environment": "alfworld",
            "task_id": "generated/pick_and_place_simple/7",
            "seed": 0,
            "options": {},
        },
        "policy_version": "v0",
        "trajectories": [
            {
                "id": "t0",
                "reward": 1.0,
                "success": True,
                "turns": [
                    _turn(_OPENING, "go to desk 1", [11, 4, 7], [-0.7, -0.1, -0.02]),
                    _turn("On the desk 1, you see a mug 1.", "take mug 1 from desk 1", [5, 9], [-0.3, -0.2]),
                    _turn("You pick up the mug 1 from the desk 1.", "move mug 1 to shelf 1", [8, 9], [-0.4, -0.1]),
                ],
            },
            {
                "id": "t1",
                "reward": 0.0,
                "success": False,
                "turns": [_turn(_OPENING, "go to shelf 1", [11, 4, 9], [-1.2, -0.1, -0.03])],
            },
        ],
    },
    "options": OPTIONS_EXAMPLE,
}

OUTCOMES_EXAMPLE: dict[str, JsonValue] = {
    "outcomes": [
        {"request_id": "r1-before", "sample": 0, "success": False, "reward": 0.0, "tokens": 61},
        {"request_id": "r1-after", "sample": 0, "success": True, "reward": 1.0, "tokens": 37},
    ]
}

RECORD_EXAMPLE: dict[str, JsonValue] = {
    "judge": "contrast",
    "mode": "audited",
    "lambda": 10.0,
    "window": 64,
    "records": [
        {
            "prompt_version": "1",
            "environment": "alfworld",
            "policy": "embedded",
            "audits": 212,
            "window": {"audits": 64, "first_at": "2026-12-02T08:14:05Z", "last_at": "2026-12-02T09:02:41Z"},
            "mean_delta": 0.1875,
            "interval": [0.052, 0.312],
            "acceptance_rate": 0.34375,
            "record": 0.16667,
            "next_bonus": 1.6667,
            "features": [
                {"feature": "kind", "value": "look_at_obj", "audits": 88, "mean_delta": 0.0682, "shift": -0.0934},
                {"feature": "kind", "value": "pick_and_place", "audits": 124, "mean_delta": 0.2823, "shift": 0.0728},
            ],
        }
    ],
}

PROBLEM_EXAMPLE: dict[str, JsonValue] = {
    "type": "urn:prover:problem:invalid-analysis",
    "title": "The analysis that was asked for cannot be made",
    "status": 422,
    "detail": "group.trajectories[0].reward: was 3.0; expected a number from 0.0 to 1.0 (reward_range)",
    "errors": [
        {
            "field": "group.trajectories[0].reward",
            "was": "3.0",
            "expected": "a number from 0.0 to 1.0 (reward_range)",
        }
    ],
}
