"""Bad input over gRPC: refused with the field's name, and nothing changes.

Among it are names that could reach another target's keys."""

from __future__ import annotations

import itertools
import math

import grpc
import pytest
import redis
from google.protobuf import duration_pb2, field_mask_pb2
from harness import CALL_TIMEOUT_S, EPOCH_US, Gate, policy, stopping, violations
from stubs import admin_pb2 as admin_pb
from stubs import admission_pb2 as pb
from stubs import policy_pb2

HUGE = "x" * 100_000
BAD_NAMES = {"empty": "", "too long": "x" * 129, "huge": HUGE, "newline": "a\nb", "nul": "a\0b", "delete": "a\x7f",
             "c1": "a\x85", "129 bytes in 65 letters": "ä" * 64 + "x"}
BAD_AMOUNTS = [-1, -1e-300, math.nan, math.inf, -math.inf, 2.0 ** 63, 1.0000001e12]
# What gRPC answers to bytes that are no message, before the service sees a field that it could name.
LIBRARY_REFUSES = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INVALID_ARGUMENT)
BAD_DURATIONS = [(-1, 0), (0, -1), (3601, 0), (1 << 62, 0), (1, -1), (0, 1_000_000_000), (315_576_000_001, 0)]


@pytest.fixture(scope="module")
def gate(tmp_path_factory):
    directory = tmp_path_factory.mktemp("gate")
    clock = directory / "clock"
    clock.write_text(str(EPOCH_US))
    running = Gate(directory, clock=clock, flags=["--store-timeout=5s"])
    with stopping(running):
        made = policy("t", 1000)
        made.classes.add(name="gold", weight=2)
        made.classes.add(name="base")
        running.configure(made)
        running.admit("t", "held", 100)
        yield running


def dump(gate) -> dict[bytes, object]:
    """What the store holds but the heartbeats and the target's record, which keeps a clock: `inspect` shows that."""
    with redis.Redis(unix_socket_path=str(gate.directory / "s" / "valkey.sock")) as client:
        read = {b"hash": client.hgetall, b"string": client.get, b"set": client.smembers,
                b"zset": lambda key: client.zrange(key, 0, -1, withscores=True)}
        return {key: read[client.type(key)](key) for key in client.scan_iter(count=1000)
                if key != b"fg:gates" and not key.endswith(b"}:state")}


def refused(gate, call, request, *fields: str) -> str:
    """Asserts INVALID_ARGUMENT that names these fields, or contains their text, and no change. The message."""
    before, state = dump(gate), gate.inspect("t")
    with pytest.raises(grpc.RpcError) as error:
        call(request, timeout=CALL_TIMEOUT_S)
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT, (error.value.code(), error.value.details()[:300])
    named = violations(error.value)
    assert len(named) == len(fields) and all(a == b for a, b in zip(named, fields)), (named,
            error.value.details()[:300])
    assert dump(gate) == before and gate.inspect("t") == state
    return error.value.details()


def admit(**fields) -> pb.AdmitRequest:
    return pb.AdmitRequest(**{"target": "t", "tenant": "a", "request_id": "bad", **fields})


def release(**fields) -> pb.ReleaseRequest:
    return pb.ReleaseRequest(**{"target": "t", "request_id": "held", **fields})


def duration(seconds: int, nanos: int) -> duration_pb2.Duration:
    return duration_pb2.Duration(seconds=seconds, nanos=nanos)


@pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES)
def test_names(gate, name):
    refused(gate, gate.admission.Admit, admit(target=name), "target")
    refused(gate, gate.admission.Admit, admit(tenant=name), "tenant")
    if name:
        refused(gate, gate.admission.Admit, admit(priority=name), "priority")
    refused(gate, gate.admission.Admit, admit(cost={name: 1}), "cost")
    refused(gate, gate.admission.Release, release(target=name, withdraw=pb.Withdraw()), "target")
    refused(gate, gate.admission.Release, release(settle=pb.Settle(actual={name: 1})), "settle.actual")
    refused(gate, gate.admission.Release, release(extend=pb.Extend(used_so_far={name: 1})), "extend.used_so_far")
    for made in (policy(name, 10), policy_pb2.TargetPolicy(name=name)):
        refused(gate, gate.admission.Configure, pb.ConfigureRequest(policy=made), "policy.name")
    refused(gate, gate.admission.Configure, pb.ConfigureRequest(delete_target=True, policy={"name": name}),
            "policy.name")


@pytest.mark.parametrize("id", ["x" * 257, HUGE, "a\nb", "a\0", "\x1b", "ä" * 129])
def test_request_ids(gate, id):
    refused(gate, gate.admission.Admit, admit(request_id=id), "request_id")
    refused(gate, gate.admission.Release, release(request_id=id, withdraw=pb.Withdraw()), "request_id")


def test_longest_names_and_ids_are_good(gate):
    name, id = "ä" * 64, "ö" * 128
    gate.configure(policy(name, 10))
    assert gate.admit(name, id, 10, tenant=name).WhichOneof("outcome") == "grant"
    assert gate.settle(name, id, {"tokens": 4}).refunded["tokens"] == 6


@pytest.mark.parametrize("amount", BAD_AMOUNTS)
def test_amounts(gate, amount):
    refused(gate, gate.admission.Admit, admit(cost={"tokens": amount}), 'cost["tokens"]')
    refused(gate, gate.admission.Admit, admit(cost={"requests": amount}), 'cost["requests"]')
    refused(gate, gate.admission.Release, release(settle=pb.Settle(actual={"tokens": amount})),
            'settle.actual["tokens"]')
    refused(gate, gate.admission.Release, release(extend=pb.Extend(used_so_far={"tokens": amount})),
            'extend.used_so_far["tokens"]')


@pytest.mark.parametrize("value", BAD_DURATIONS)
def test_durations(gate, value):
    d = duration(*value)
    refused(gate, gate.admission.Admit, admit(timer_floor=d), "timer_floor")
    refused(gate, gate.admission.Admit, admit(max_hold=d), "max_hold")
    refused(gate, gate.admission.Release, release(extend=pb.Extend(lease_ttl=d)), "extend.lease_ttl")
    if value != (3601, 0):
        refused(gate, gate.admission.Release, release(settle=pb.Settle(outcome=2, retry_after=d)), "settle.retry_after")
    if value[0] >= 1 << 62 or value in ((1, -1), (0, 1_000_000_000), (315_576_000_001, 0)):
        refused(gate, gate.admission.Admit, admit(deadline=d), "deadline")


def test_numbers_and_kinds(gate):
    refused(gate, gate.admission.Admit, admit(attempt=1_000_001), "attempt")
    refused(gate, gate.admission.Admit, admit(attempt=(1 << 32) - 1), "attempt")
    refused(gate, gate.admission.Admit, admit(cost_kind=99), "cost_kind")
    refused(gate, gate.admission.Admit, admit(mode=-1), "mode")
    refused(gate, gate.admission.Release, release(settle=pb.Settle(outcome=77)), "settle.outcome")
    refused(gate, gate.admission.Release, release(), "action")
    refused(gate, gate.admission.Release, release(attempt=1 << 31, withdraw=pb.Withdraw()), "attempt")
    refused(gate, gate.admission.Admit, pb.AdmitRequest(cost={"tokens": -1}, attempt=1 << 31),
            "target", "tenant", 'cost["tokens"]', "attempt")


def test_what_the_target_lacks(gate):
    refused(gate, gate.admission.Admit, admit(cost={"colour": 1}), 'cost["colour"]')
    refused(gate, gate.admission.Admit, admit(priority="vip"), "priority")
    refused(gate, gate.admission.Release, release(settle=pb.Settle(actual={"colour": 1})), 'settle.actual["colour"]')
    refused(gate, gate.admission.Release, release(extend=pb.Extend(used_so_far={"colour": 1})),
            'extend.used_so_far["colour"]')
    # names that look like the end of a field's path
    for name in ("a: b", "]: x", "a]: b", "x[y]: z", "q\" : "):
        refused(gate, gate.admission.Admit, admit(cost={name: 1}), f'cost["{name}"]')
        refused(gate, gate.admission.Admit, admit(cost={name: -1}), f'cost["{name}"]')


def test_same_id_with_another_request(gate):
    refused(gate, gate.admission.Admit, admit(request_id="held", tenant="t", cost={"tokens": 101}), "cost")
    refused(gate, gate.admission.Admit, admit(request_id="held", tenant="u", cost={"tokens": 100}), "tenant")
    refused(gate, gate.admission.Admit, admit(request_id="held", tenant="t", cost={"tokens": 100}, priority="gold"),
            "priority")
    refused(gate, gate.admission.Admit, admit(request_id="held", tenant="t", cost={"tokens": 100}, cost_kind=2),
            "cost_kind")


def test_many_dimensions_and_big_messages(gate):
    refused(gate, gate.admission.Admit, admit(cost={f"d{i}": 1.0 for i in range(10_000)}), "cost")
    refused(gate, gate.admission.Release, release(settle=pb.Settle(actual={f"d{i}": 1.0 for i in range(10_000)})),
            "settle.actual")
    refused(gate, gate.admission.Admit, admit(tenant="x" * (4 * 1024 * 1024 - 200)), "tenant")
    made = policy("many", 1)
    for i in range(10_000):
        made.dimensions.add().CopyFrom(made.dimensions[0])
        made.dimensions[-1].name = f"d{i}"
    refused(gate, gate.admission.Configure, pb.ConfigureRequest(policy=made), "dimensions")
    with pytest.raises(grpc.RpcError) as error:
        gate.admission.Admit(admit(tenant="x" * (5 * 1024 * 1024)), timeout=CALL_TIMEOUT_S)
    assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert gate.admit("t", "after", 0).WhichOneof("outcome") == "grant"


def test_the_largest_policy_is_taken(gate):
    made = policy("full", 1000)
    for i in range(10_000):
        made.tenants.add(name=f"tenant-{i}", weight=1 + i % 7)
    assert gate.configure(made).config_version == 1
    assert len(gate.inspect("full").policy.tenants) == 10_000
    assert gate.admit("full", "a", 1, tenant="tenant-9999").WhichOneof("outcome") == "grant"
    made.tenants.add(name="one too many")
    refused(gate, gate.admission.Configure, pb.ConfigureRequest(policy=made), "tenants")


@pytest.mark.parametrize("method,request_", [
    ("Admit", admit(tenant="MARK")), ("Admit", admit(target="MARK")), ("Admit", admit(request_id="MARK")),
    ("Admit", admit(cost={"MARK": 1})), ("Release", release(request_id="MARK", withdraw=pb.Withdraw())),
    ("Configure", pb.ConfigureRequest(policy=policy("MARK", 1)))],
    ids=["tenant", "target", "request_id", "cost", "release", "configure"])
@pytest.mark.parametrize("letters", [b"\xff\xfe\xfd\xfc", b"\xc0\xaf\xc0\xaf", b"\xed\xa0\x80x", b"\xf5\x80\x80\x80",
                                     b"ab\xc3", b"\xf4\x90\x80\x80"], ids=repr)
def test_bytes_that_are_no_utf8(gate, method, request_, letters):
    before = dump(gate)
    raw = gate.channel.unary_unary(f"/fairgate.v1.AdmissionService/{method}")
    with pytest.raises(grpc.RpcError) as error:
        raw(request_.SerializeToString().replace(b"MARK", letters.ljust(4, b"x")), timeout=CALL_TIMEOUT_S)
    assert error.value.code() in LIBRARY_REFUSES
    assert dump(gate) == before
    assert gate.admit("t", "utf8", 0).WhichOneof("outcome") == "grant"


@pytest.mark.parametrize("garbage", [b"\xff" * 64, b"\x0a", b"\x0a\xff\xff\xff\xff\x0f", b"\x22" * 1000], ids=len)
def test_bytes_that_are_no_message(gate, garbage):
    before = dump(gate)
    for method in ("Admit", "Release", "Configure"):
        with pytest.raises(grpc.RpcError) as error:
            gate.channel.unary_unary(f"/fairgate.v1.AdmissionService/{method}")(garbage, timeout=CALL_TIMEOUT_S)
        assert error.value.code() in LIBRARY_REFUSES
    assert dump(gate) == before


NAMES = ["a", "a}", "{a", "{a}", "a}:state", "}{", "a:state", "*", "?", "[a]", "a*", "%61", "a%7D", "a b", "ab", "A",
        "ä",
         "a\u2028b", "fg:{a}:state", "..", "/", "'", '"', "$", "\\", "\\x7d", "a\u00a0", "１", "𝄞", "-", "+inf",
         "NaN", "0", "00"]


def test_no_two_targets_share_keys(gate):
    """Each name is a target of its own: what is charged to one leaves all others as they were."""
    for name in NAMES:
        gate.configure(policy(name, 1000))
    for i, name in enumerate(NAMES):
        before = {other: gate.inspect(other) for other in NAMES[:8] if other != name}
        assert gate.admit(name, "same id", 10 + i).WhichOneof("outcome") == "grant"
        assert gate.tokens(name).available == 990 - i
        assert all(gate.inspect(other) == state for other, state in before.items()), name
    assert [gate.tokens(name).available for name in NAMES] == [990 - i for i in range(len(NAMES))]
    tags = {key.split(b"}")[0] for key in dump(gate) if key.startswith(b"fg:{")}
    assert all(key.count(b"{") == 1 and key.count(b"}") == 1 for key in dump(gate) if key.startswith(b"fg:{"))
    assert len(tags) >= len(NAMES)
    assert set(NAMES) <= set(gate.admin.ListTargets(admin_pb.ListTargetsRequest()).targets)
    for name in NAMES:
        gate.admission.Configure(pb.ConfigureRequest(policy={"name": name}, delete_target=True), timeout=CALL_TIMEOUT_S)
    left = [key for key in dump(gate) if key.startswith(b"fg:{a")]
    assert not left and gate.inspect("t").leases_open >= 1


def test_no_two_tenants_classes_or_ids_share_state(gate):
    made = policy("names", 1e6)
    classes = ["a", "a:", ":a", "1", "1:a", "}", "*"]
    for name in classes:
        made.classes.add(name=name)
    gate.configure(made)
    tenants = [n for n in NAMES if len(n.encode()) <= 128] + ["1:a", "a:", ":", "1:", "t:a", "#", "a#1"]
    for tenant, name in itertools.product(tenants, classes):
        for id in ("x", "x#1"):
            answer = gate.admit("names", f"{tenant}|{name}|{id}", 1, tenant=tenant, priority=name)
            assert answer.WhichOneof("outcome") == "grant" and not answer.grant.repeated
    flows = {(f.tenant, f.priority): f.grants_total for f in gate.inspect("names").flows}
    assert flows == {pair: 2 for pair in itertools.product(tenants, classes)}


def test_inspect(gate):
    for target, field in (("", "target"), ("x" * 129, "target"), (HUGE, "target"), ("a\nb", "target"), ("a\0",
            "target")):
        refused(gate, gate.admin.InspectTarget, admin_pb.InspectTargetRequest(target=target), field)
    refused(gate, gate.admin.InspectTarget, admin_pb.InspectTargetRequest(target="t", flows_max=1001), "flows_max")


# Configure


def wrong_policies():
    """(what, how the good policy is spoilt, field)"""
    d, minute = duration, 60
    tokens = "dimensions[tokens]"
    yield "no dimension", lambda p: p.ClearField("dimensions"), "dimensions"
    yield "twice", lambda p: p.dimensions.add().CopyFrom(p.dimensions[1]), f"{tokens}.name"
    yield "name of a dimension", lambda p: setattr(p.dimensions[1], "name", "a\nb"), "dimensions"
    yield "no limit", lambda p: p.dimensions[1].ClearField("limit"), f"{tokens}.limit"
    for value in BAD_AMOUNTS:
        yield f"limit {value}", lambda p, v=value: setattr(p.dimensions[1], "limit", v), f"{tokens}.limit"
    yield "no window", lambda p: p.dimensions[1].ClearField("window"), f"{tokens}.window"
    for value in [(0, 0), (0, 999_999), (-1, 0), (86_401, 0), (1 << 62, 0), (1, -1), (0, 1_000_000_000)]:
        yield f"window {value}", lambda p, v=value: p.dimensions[1].window.CopyFrom(d(*v)), f"{tokens}.window"
    yield "model", lambda p: setattr(p.dimensions[1], "window_model", 9), f"{tokens}.window_model"
    yield "phase", lambda p: p.dimensions[1].window_phase.CopyFrom(d(1, 0)), f"{tokens}.window_phase"
    for value in [(0, 0), (minute + 1, 0), (-1, 0)]:
        spoil = lambda p, v=value: p.dimensions[1].sub_window.CopyFrom(d(*v))  # noqa: E731
        yield f"sub-window {value}", spoil, f"{tokens}.sub_window"
    for field in ("rate_fraction", "burst_fraction"):
        for value in (0, -0.1, 1.001, math.nan, math.inf):
            yield f"{field} {value}", lambda p, f=field, v=value: setattr(p.dimensions[1], f, v), f"{tokens}.{field}"
    yield "65 classes", lambda p: [p.classes.add(name=f"c{i}") for i in range(65)], "classes"
    yield "class twice", lambda p: [p.classes.add(name="c") for _ in range(2)], "classes[c].name"
    yield "class without a name", lambda p: p.classes.add(), "classes[].name"
    for value in (-1, 1.1e6, math.nan, math.inf):
        yield f"class weight {value}", lambda p, v=value: p.classes.add(name="c", weight=v), "classes[c].weight"
    for value in (0, -1, 1.1, math.nan):
        yield f"max_share {value}", lambda p, v=value: p.classes.add(name="c", max_share=v), "classes[c].max_share"
    yield "default class", lambda p: setattr(p, "default_class", "nobody"), "default_class"
    yield "tenant twice", lambda p: [p.tenants.add(name="u") for _ in range(2)], "tenants[u].name"
    for value in (0, -1, 1.1e6, math.nan, math.inf):
        yield f"tenant weight {value}", lambda p, v=value: p.tenants.add(name="u", weight=v), "tenants[u].weight"
        weight = "default_tenant_weight"
        yield f"default weight {value}", lambda p, v=value: setattr(p, weight, v), weight

    def cap(p, dimension="tokens", limit: float | None = 1.0, window=(60, 0)):
        tenant = p.tenants[0] if p.tenants else p.tenants.add(name="u")
        made = tenant.caps.add(dimension=dimension, limit=limit)
        if window:
            made.window.CopyFrom(d(*window))

    yield "cap of no dimension", lambda p: cap(p, "colour"), "tenants[u].caps[colour].dimension"
    yield "cap twice", lambda p: [cap(p) for _ in range(2)], "tenants[u].caps[tokens].dimension"
    yield "cap without limit", lambda p: cap(p, limit=None), "tenants[u].caps[tokens].limit"
    yield "cap of nan", lambda p: cap(p, limit=math.nan), "tenants[u].caps[tokens].limit"
    yield "cap without window", lambda p: cap(p, window=None), "tenants[u].caps[tokens].window"
    yield "cap window", lambda p: cap(p, window=(0, 1)), "tenants[u].caps[tokens].window"
    yield "discipline", lambda p: setattr(p, "discipline", 7), "discipline"
    yield "on_store_loss", lambda p: setattr(p, "on_store_loss", -3), "on_store_loss"
    for field, values in {"max_defer": [(0, 0), (86_401, 0), (-1, 0)], "lease_ttl": [(0, 1), (3601, 0)],
                          "id_retention": [(0, 999_999_999), (86_401, 0)]}.items():
        for value in values:
            yield f"{field} {value}", lambda p, f=field, v=value: getattr(p, f).CopyFrom(d(*v)), field
    yield "places", lambda p: setattr(p, "places_per_flow_max", 100_001), "places_per_flow_max"


@pytest.mark.parametrize("spoil,field", [case[1:] for case in wrong_policies()],
        ids=[case[0] for case in wrong_policies()])
def test_configure(gate, spoil, field):
    for name in ("t", "new"):
        made = policy(name, 500)
        spoil(made)
        if field == "dimensions" and made.dimensions:  # the path would hold the control character
            before = dump(gate)
            with pytest.raises(grpc.RpcError) as error:
                gate.admission.Configure(pb.ConfigureRequest(policy=made), timeout=CALL_TIMEOUT_S)
            assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT and dump(gate) == before
            continue
        for dry in (False, True):
            refused(gate, gate.admission.Configure, pb.ConfigureRequest(policy=made, validate_only=dry), field)


def test_configure_masks_and_versions(gate):
    def patch(*paths: str, **fields):
        return pb.ConfigureRequest(policy=policy("t", 700), update_mask=field_mask_pb2.FieldMask(paths=paths), **fields)

    for path in ("colour", "dimensions.limit", "", "policy.dimensions", "name ", "*"):
        refused(gate, gate.admission.Configure, patch(path), "update_mask")
    made = patch("dimensions")
    made.remove.dimensions.extend(["requests", "tokens"])
    refused(gate, gate.admission.Configure, made, "dimensions")
    before = dump(gate)
    for wrong in (patch("dimensions", expected_version=99), pb.ConfigureRequest(policy=policy("t", 1),
            create_only=True)):
        with pytest.raises(grpc.RpcError) as error:
            gate.admission.Configure(wrong, timeout=CALL_TIMEOUT_S)
        assert error.value.code() == grpc.StatusCode.ABORTED and dump(gate) == before


def test_the_gate_is_still_serving(gate):
    """Last: nothing above was taken for the gate's own fault."""
    from harness import health

    assert health(gate) == "SERVING"
