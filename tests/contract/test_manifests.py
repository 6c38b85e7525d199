"""The Kubernetes manifests: built by kustomize, valid to the letter, and safe."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from manifests import OVERLAYS, ROOT, documents, needs_kubectl, pods, yaml

CRDS = ROOT.parent / "shared" / "data" / "crds"

pytestmark = needs_kubectl


def _strict(schema: Any) -> Any:
    """As an API server with strict field validation reads it: a field that the schema does not name is an error."""
    if isinstance(schema, list):
        return [_strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: _strict(value) for key, value in schema.items()}
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        strict.setdefault("additionalProperties", False)
    return strict


def _crd_schema(kind: str) -> Mapping[str, Any]:
    for path in CRDS.glob("*.yaml"):
        definition = yaml.safe_load(path.read_text())
        if definition["spec"]["names"]["kind"] == kind:
            schema = _strict(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}
            return schema
    raise AssertionError(f"no definition of {kind} in {CRDS}")


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_object_fits_its_schema_to_the_letter(overlay: str) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed").validate
    for document in documents(overlay):
        if not document["apiVersion"].startswith("keda.sh/"):
            validate(document, desired_version="1.32", strict=True)


@pytest.mark.parametrize("overlay", ["production", "production-stack"])
def test_the_autoscaler_s_objects_fit_the_definitions_of_keda(overlay: str) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    if not CRDS.is_dir():
        pytest.skip("no KEDA definitions beside the checkout")
    scaled = [document for document in documents(overlay) if document["apiVersion"].startswith("keda.sh/")]
    assert {document["kind"] for document in scaled} == {"ScaledObject", "TriggerAuthentication"}
    for document in scaled:
        jsonschema.validate(document, _crd_schema(document["kind"]))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_pod_is_privileged_or_root_or_holds_a_token(overlay: str) -> None:
    every = list(pods(overlay))
    assert len(every) >= 8
    for name, template in every:
        spec = template["spec"]
        assert spec["automountServiceAccountToken"] is False, name
        assert spec["securityContext"]["runAsNonRoot"] is True and spec["securityContext"]["runAsUser"] > 10000, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys(), name
        assert not any("hostPath" in volume for volume in spec.get("volumes", [])), name
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False and context["readOnlyRootFilesystem"] is True, name
            assert context["capabilities"] == {"drop": ["ALL"]} and "privileged" not in context, name


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_container_is_probed_and_limited(overlay: str) -> None:
    for name, template in pods(overlay):
        spec = template["spec"]
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            # What ends by itself is not asked how it is.
            if container in spec["containers"] and name != "Job model":
                assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys(), name
            assert {"cpu", "memory"} <= container["resources"]["limits"].keys(), name
            tag = container["image"].rpartition(":")[2]
            assert "/" not in tag and tag != "latest", f"{name}: {container['image']} names no version"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_pod_has_a_network_policy_beside_the_general_denial(overlay: str) -> None:
    policies = [document["spec"] for document in documents(overlay) if document["kind"] == "NetworkPolicy"]
    assert {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}.items() <= policies[_denial(policies)].items()
    own = [policy["podSelector"]["matchLabels"] for policy in policies if policy["podSelector"].get("matchLabels")]
    for name, template in pods(overlay):
        labels = template["metadata"]["labels"]
        assert any(selector.items() <= labels.items() for selector in own), f"{name} has no policy of its own"


def _denial(policies: list[dict[str, Any]]) -> int:
    return next(n for n, policy in enumerate(policies) if not policy["podSelector"] and not policy.get("egress"))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_that_share_a_volume_are_of_one_group(overlay: str) -> None:
    """Otherwise each start gives all files to its own group, and takes them from the others."""
    groups: dict[str, set[int]] = {}
    for _, template in pods(overlay):
        for volume in template["spec"].get("volumes", []):
            if "persistentVolumeClaim" in volume:
                claim = volume["persistentVolumeClaim"]["claimName"]
                groups.setdefault(claim, set()).add(template["spec"]["securityContext"]["fsGroup"])
    assert "weights" in groups and {claim for claim, found in groups.items() if len(found) > 1} == set()


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_what_a_pod_refers_to_is_there(overlay: str) -> None:
    """Volumes, settings, accounts and priorities by name; the passwords alone are made by whoever runs the cluster."""
    objects = documents(overlay)
    names = {(document["kind"], document["metadata"]["name"]) for document in objects}
    claims = {
        claim["metadata"]["name"]
        for document in objects
        for claim in document.get("spec", {}).get("volumeClaimTemplates", [])
    }
    for name, template in pods(overlay):
        spec = template["spec"]
        assert ("ServiceAccount", spec["serviceAccountName"]) in names, name
        assert ("PriorityClass", spec["priorityClassName"]) in names, name
        volumes = {volume["name"]: volume for volume in spec.get("volumes", [])}
        for volume in volumes.values():
            if "persistentVolumeClaim" in volume:
                assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in names, name
        for container in spec["containers"]:
            mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
            assert mounted <= volumes.keys() | claims, f"{name}: {mounted - volumes.keys() - claims}"
            for source in container.get("envFrom", []):
                assert ("ConfigMap", source["configMapRef"]["name"]) in names, name
            for variable in container.get("env", []):
                asked = variable.get("valueFrom", {}).get("configMapKeyRef")
                assert asked is None or ("ConfigMap", asked["name"]) in names, f"{name}: {variable}"
        for volume in volumes.values():
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in names, name


def test_a_worker_that_is_told_to_stop_may_end_its_longest_task() -> None:
    from services.verifier.config import VerifierSettings

    limit_s = VerifierSettings.model_fields["task_limit_s"].default
    for overlay in OVERLAYS:
        spec = dict(pods(overlay))["Deployment verifier"]["spec"]
        assert spec["terminationGracePeriodSeconds"] > limit_s


def test_the_autoscaler_counts_running_work_and_leaves_the_number_of_workers_alone() -> None:
    objects = documents("production")
    scaled = next(document for document in objects if document["kind"] == "ScaledObject")
    queries = [trigger["metadata"].get("query", "") for trigger in scaled["spec"]["triggers"]]
    assert any("running_tasks" in query and "waiting_messages" in query for query in queries), json.dumps(queries)
    workers = next(d for d in objects if (d["kind"], d["metadata"]["name"]) == ("Deployment", "verifier"))
    assert "replicas" not in workers["spec"]
