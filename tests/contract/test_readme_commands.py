"""The commands of README.md's "Use it", and the group that they hand in."""

import asyncio
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from services.gateway.__main__ import check_task
from tests.rest_server import play_through, running_gateway

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "group.json"


def _commands() -> list[str]:
    return re.findall(r"^curl -s .+$", (ROOT / "README.md").read_text(), re.MULTILINE)


def test_the_example_is_what_its_command_makes() -> None:
    made = subprocess.run(
        [sys.executable, "deploy/test/make_group.py", "1", "4"], cwd=ROOT, capture_output=True, check=True
    )
    assert json.loads(made.stdout) == json.loads(EXAMPLE.read_text())


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_the_readme_s_commands_go_from_a_file_of_the_clone_to_advantages(redis_url: str, tmp_path: Path) -> None:
    submit, wait, advantages = _commands()

    async def answer(command: str) -> dict[str, str]:
        local = command.replace("localhost:8000", gateway.url.removeprefix("http://"))
        process = await asyncio.create_subprocess_exec(*shlex.split(local), cwd=ROOT, stdout=subprocess.PIPE)
        output, _ = await process.communicate()
        return json.loads(output)

    async with running_gateway(redis_url, tmp_path, check_task=check_task) as gateway:
        analysis_id = (await answer(submit))["id"]
        await play_through(gateway.store, analysis_id)
        assert (await answer(wait.replace("/ID", f"/{analysis_id}")))["status"] == "done"
        credited = (await answer(advantages.replace("/ID", f"/{analysis_id}")))["trajectories"]
    assert len(credited) == len(json.loads(EXAMPLE.read_text())["group"]["trajectories"])
