# SPDX-License-Identifier: MIT OR Apache-2.0
"""Does a trace for perfetto conform to perfetto's own descriptors?

Each packet is parsed with `perfetto_trace.proto` from its Python package. No field is unknown, each
interned name was defined before its use, each track has one name and an existing parent, times of a
track do not go back, slices are nested, the parts of a request add up to it, and no command is left
in the device.
"""

import sys
from collections import defaultdict

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto


def unknown(message):
    """The fields of a message, and of those in it, that are unknown to its descriptor."""
    found = [field.field_number for field in UnknownFieldSet(message)]
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for inner in value if field.is_repeated else [value]:
                found += unknown(inner)
    return found


def check(path, wanted):
    trace = proto.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    assert not unknown(trace), f"fields that perfetto does not know: {unknown(trace)}"
    tracks, names, beside, stacks, last = {}, {}, {}, defaultdict(list), {}
    depths, requests, sequences = defaultdict(list), 0, set()
    event = proto.TrackEvent
    for packet in trace.packet:
        sequence = packet.trusted_packet_sequence_id
        first = bool(packet.sequence_flags & proto.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED)
        assert first == (sequence not in sequences), "names begin once in each sequence"
        sequences.add(sequence)
        for name in packet.interned_data.event_names:
            names[sequence, name.iid] = name.name
        for name in packet.interned_data.debug_annotation_names:
            beside[sequence, name.iid] = name.name
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid and track.uuid not in tracks, "a track is told once"
            assert not track.parent_uuid or track.parent_uuid in tracks, "its parent comes before"
            tracks[track.uuid] = track
            continue
        assert packet.HasField("timestamp") and packet.HasField("track_event")
        told, at = packet.track_event, packet.timestamp
        name = tracks[told.track_uuid].name
        assert last.get(told.track_uuid, 0) <= at, f"{name}: time goes back at {at}"
        last[told.track_uuid] = at
        for annotation in told.debug_annotations:
            assert beside[sequence, annotation.name_iid]
        stack = stacks[told.track_uuid]
        if told.type == event.TYPE_SLICE_BEGIN:
            stack.append([names[sequence, told.name_iid], at, 0])
        elif told.type == event.TYPE_SLICE_END:
            what, began, inner = stack.pop()
            if stack:
                stack[-1][2] += at - began
            elif name not in ("in the device", "scheduler"):
                assert inner == at - began, f"{name}: {what} at {began}: its parts are {inner} of {at - began}"
                requests += 1
        elif told.type == event.TYPE_COUNTER:
            assert tracks[told.track_uuid].HasField("counter")
            depths[sequence].append(told.counter_value)
        else:
            assert told.type == event.TYPE_INSTANT and names[sequence, told.name_iid]
    assert not any(stacks.values()), "a slice that does not end"
    there = {track.name for track in tracks.values()}
    assert wanted <= there, f"missing tracks: {wanted - there}"
    for counted in depths.values():
        assert min(counted) == 0 and counted[-1] == 0, "the device is empty in the end"
    print(f"{path}: {len(trace.packet)} packets, {len(tracks)} tracks, {requests} requests")


check(sys.argv[1], set(sys.argv[2:]))
