#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What docker/ holds fits the program: every setting and option that its files name exists, the manifests are YAML of
# the kinds that they say, probes ask routes that there are. (The images themselves need a docker daemon.)
. "$(dirname "$0")/lib.sh"
root=$(cd "$(dirname "$0")/../.." && pwd)
"$WARPTUNE_PROGRAM" serve --help >"$work/help"
for name in $(grep -oh 'WARPTUNE_[A-Z_]*' -r "$root/docker" | sort -u); do
    case $name in WARPTUNE_NAME | WARPTUNE_HEALTH_URL | WARPTUNE_DB_PASSWORD | WARPTUNE_PG_BIN) continue ;; esac
    option=$(echo "${name#WARPTUNE_}" | tr 'A-Z_' 'a-z-')
    ok "$name is a setting" grep -q -- "^  --$option " "$work/help"
done
start_server --no-worker
for path in $(grep -ohE '(path: |127\.0\.0\.1:8080)/[a-z.]+' -r "$root/docker" | sed 's/.*[ 0]\//\//' | sort -u); do
    request "$path is there" 200 "$url$path"
done
python=$root/build/contract-venv/bin/python # has PyYAML
[ -x "$python" ] || python=python3
ok "the manifests" "$python" - "$root" <<'END'
import sys
import yaml

root = sys.argv[1] + "/docker/"


def load(name):
    with open(root + name) as file:
        return [document for document in yaml.safe_load_all(file) if document]


compose = load("compose.yml")[0]
services = compose["services"]
assert services["worker"]["deploy"]["resources"]["reservations"]["devices"][0]["capabilities"] == ["gpu"]
for name in ("server", "worker", "cpu-worker"):
    assert "WARPTUNE_DATABASE_URL" in services[name]["environment"], name
    assert int(services[name]["stop_grace_period"].rstrip("s")) > 20, name
for volume in {mount.split(":")[0] for service in services.values() for mount in service.get("volumes", [])}:
    assert volume in compose["volumes"], volume

kustomization = load("k8s/kustomization.yaml")[0]
pods = {}
for name in kustomization["resources"]:
    for document in load("k8s/" + name):
        assert document["apiVersion"] and document["metadata"]["name"], name
        if document["kind"] == "Deployment":
            template = document["spec"]["template"]
            assert document["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
            pods[document["metadata"]["name"]] = template["spec"]
        if document["kind"] == "Service":
            service = document["spec"]
container = pods["warptune-server"]["containers"][0]
assert service["ports"][0]["targetPort"] in [port["name"] for port in container["ports"]]
for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
    assert container[probe]["httpGet"]["port"] == "http", probe
assert pods["warptune-worker"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1
for pod in pods.values():
    assert pod["securityContext"]["runAsNonRoot"] and pod["terminationGracePeriodSeconds"] > 25
    assert pod["containers"][0]["image"] in [image["name"] for image in kustomization["images"]]
    mounts = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    assert mounts == {volume["name"] for volume in pod["volumes"]}
END
