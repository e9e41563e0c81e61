#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Weights of claims: passes them from their VolumeAttributesClass to this node's server.

    PersistentVolumeClaim ─ spec.volumeAttributesClassName ─▶ VolumeAttributesClass ─ parameters.weight
        └─ spec.volumeName ─▶ PersistentVolume ─ label paternoster.io/tenant ─▶ {"do":"weight", …}

Polls the API server every few seconds. For each weight that differs it sends, over the control
socket, the same order as `paternoster ctl weight`. Needs nothing but Python.
"""

import argparse
import json
import os
import socket
import ssl
import sys
import time
import urllib.request

DRIVER = "paternoster.io/weights"
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount/"


def get(api, path):
    """What the API server has at this path."""
    headers, context = {}, None
    if api.startswith("https:"):
        with open(ACCOUNT + "token", encoding="ascii") as token:
            headers["Authorization"] = "Bearer " + token.read().strip()
        context = ssl.create_default_context(cafile=ACCOUNT + "ca.crt")
    request = urllib.request.Request(api + path, headers=headers)
    with urllib.request.urlopen(request, timeout=10, context=context) as answer:
        return json.load(answer)["items"]


def ask(path, request):
    """Sends one line to the control socket, and returns the answer."""
    with socket.socket(socket.AF_UNIX) as control:
        control.settimeout(20)
        control.connect(path)
        control.sendall(json.dumps(request).encode() + b"\n")
        with control.makefile() as lines:
            answer = json.loads(lines.readline())
    if not answer.get("ok"):
        raise ValueError(answer.get("error", "no answer"))
    return answer["devices"]


def wanted(api):
    """The weight that a claim wants, for each tenant."""
    classes = {}
    for one in get(api, "/apis/storage.k8s.io/v1/volumeattributesclasses"):
        weight = one.get("parameters", {}).get("weight", "")
        if one["driverName"] == DRIVER and weight.isdecimal():
            classes[one["metadata"]["name"]] = int(weight)
    volumes = get(api, "/api/v1/persistentvolumes")
    tenants = {
        one["metadata"]["name"]: one["metadata"].get("labels", {}).get("paternoster.io/tenant")
        for one in volumes
    }
    weights = {}
    for claim in get(api, "/api/v1/persistentvolumeclaims"):
        spec = claim["spec"]
        tenant = tenants.get(spec.get("volumeName"))
        weight = classes.get(spec.get("volumeAttributesClassName"))
        if tenant and weight:
            weights[tenant] = weight
    return weights


def settle(api, control):
    """Sends the orders that are needed; returns the refusals as text."""
    has = {}
    for device in ask(control, {"do": "list"}):
        for line in device.get("tenants", []):
            has[line["name"]] = line["weight"]
    refused = []
    for tenant, weight in sorted(wanted(api).items()):
        if has.get(tenant, weight) == weight:
            # The weight is right already, or the tenant is on another node.
            continue
        try:
            ask(control, {"do": "weight", "name": tenant, "weight": weight})
            print(f"{tenant}: weight {has[tenant]} -> {weight}", flush=True)
        except ValueError as why:
            refused.append(f"{tenant}: weight {weight}: {why}")
    return refused


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    parser.add_argument("--api", default=f"https://{host}:{port}")
    parser.add_argument("--control", default="/run/paternoster/control.sock")
    parser.add_argument("--every", type=float, default=10, help="seconds")
    parser.add_argument("--once", action="store_true", help="once, and fail if it cannot be done")
    options = parser.parse_args()
    while True:
        try:
            refused = settle(options.api, options.control)
        except (OSError, ValueError, KeyError) as why:
            refused = [str(why)]
        for line in refused:
            print(line, file=sys.stderr, flush=True)
        if options.once:
            return 1 if refused else 0
        time.sleep(options.every)


if __name__ == "__main__":
    sys.exit(main())
