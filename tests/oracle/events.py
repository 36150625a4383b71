"""What runs have written for TensorBoard, read by the tensorboard package itself and by pandas.

    events.py RUN ...       each number of RUN/history.jsonl stands in RUN/runs/, under its step and time, and nothing else
    events.py --vector      the bytes that tests/runtime/unit_events.c compares ours with, as hex
"""
import glob
import io
import json
import math
import struct
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2
from tensorboard.plugins.hparams import metadata, plugin_data_pb2
from tensorboard.summary.writer.record_writer import RecordWriter


def single(x):
    return math.inf if abs(x) > 3.5e38 else struct.unpack("f", struct.pack("f", x))[0]


def text_value(tag, text):
    plugin = summary_pb2.SummaryMetadata.PluginData(plugin_name="text")
    shape = tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=1)])
    tensor = tensor_pb2.TensorProto(dtype="DT_STRING", string_val=[text.encode()], tensor_shape=shape)
    return summary_pb2.Summary.Value(tag=tag, metadata=summary_pb2.SummaryMetadata(plugin_data=plugin), tensor=tensor)


def session_value(tag, **which):
    data = plugin_data_pb2.HParamsPluginData(**which).SerializeToString(deterministic=True)
    plugin = summary_pb2.SummaryMetadata.PluginData(plugin_name="hparams", content=data)
    return summary_pb2.Summary.Value(tag=tag, metadata=summary_pb2.SummaryMetadata(plugin_data=plugin))


def vector():
    time = 1700000000.25
    begin = plugin_data_pb2.SessionStartInfo(start_time_secs=time)
    begin.hparams["a"].bool_value = True
    begin.hparams["b"].string_value = "x"
    begin.hparams["lr"].number_value = 0.001
    end = plugin_data_pb2.SessionEndInfo(status="STATUS_SUCCESS", end_time_secs=1700000009.5)
    event, value, summary = event_pb2.Event, summary_pb2.Summary.Value, summary_pb2.Summary
    numbers = [value(tag="train/loss", simple_value=2.5), value(tag="train/lr", simple_value=0.0),
               value(tag="x", simple_value=math.nan)]
    starts = [session_value(metadata.SESSION_START_INFO_TAG, session_start_info=begin), text_value("command", "./train --lr é")]
    events = [
        event(wall_time=time, file_version="brain.Event:2"),
        event(wall_time=time, step=300, session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START)),
        event(wall_time=time, summary=summary(value=starts)),
        event(wall_time=time + 1, step=5, summary=summary(value=numbers)),
        event(wall_time=time + 9, step=1 << 40,
              summary=summary(value=[session_value(metadata.SESSION_END_INFO_TAG, session_end_info=end)])),
    ]
    to = io.BytesIO()
    writer = RecordWriter(to)
    for one in events:
        writer.write(one.SerializeToString(deterministic=True))
    print(to.getvalue().hex())


def check(run):
    """None, or what is wrong."""
    files = glob.glob(f"{run}/runs/*/*tfevents*")
    if len(files) != 1:
        return f"{len(files)} files"
    folder = files[0].rsplit("/", 1)[0]
    history = [json.loads(line) for line in open(f"{run}/history.jsonl")]

    # event by event: the loader turns all values into tensors, as TensorBoard's page does
    have = {}
    for event in EventFileLoader(files[0]).Load():
        for value in event.summary.value:
            if value.metadata.plugin_data.plugin_name == "scalars":
                have.setdefault((event.wall_time, event.step), []).append(value.tensor.float_val[0])
    for record in history:
        numbers = [single(x) for key, x in record.items() if isinstance(x, (int, float)) and key not in ("step", "time", "epoch")]
        values = have.get((record["time"], record["step"]), [])
        missing = [x for x in numbers if x not in values]
        if missing:
            return f"step {record['step']}: {missing[:3]} of {len(numbers)} numbers are missing"

    # by tag, as scripts and pandas have them
    import pandas
    accumulator = EventAccumulator(folder, size_guidance={"scalars": 0})
    accumulator.Reload()
    tags = accumulator.Tags()["scalars"]
    table = pandas.concat(pandas.DataFrame(accumulator.Scalars(tag)).assign(tag=tag) for tag in tags)
    if table.duplicated(["tag", "step"]).any():
        return f"twice: {table[table.duplicated(['tag', 'step'])].tag.iloc[0]}"
    steps = sorted(r["step"] for r in history if "learning_rate" in r)
    for tag in ("train/grad_norm", "train/epoch"):
        if sorted(table[table.tag == tag].step) != steps:
            return f"{tag}: other steps than the history"

    # the page HParams, and texts
    settings = [m for t, m in ((t, accumulator.SummaryMetadata(t)) for t in (metadata.SESSION_START_INFO_TAG,))]
    start = metadata.parse_session_start_info_plugin_data(settings[0].plugin_data.content)
    if start.hparams["objective"].string_value == "" or start.hparams["batch.micro"].number_value < 1:
        return "no settings"
    texts = accumulator.Tags()["tensors"]
    if not {"recipe", "flags", "command"} <= set(texts):
        return f"texts: {texts}"
    if any("train_runtime" in r for r in history):
        end = accumulator.SummaryMetadata(metadata.SESSION_END_INFO_TAG)
        if metadata.parse_session_end_info_plugin_data(end.plugin_data.content).status != 1:
            return "no end"
    return None


if __name__ == "__main__":
    if sys.argv[1:] == ["--vector"]:
        vector()
    bad = 0
    for run in sys.argv[1:] if sys.argv[1] != "--vector" else []:
        why = check(run)
        print(f"not ok events {run}: {why}" if why else f"ok events {run}")
        bad |= why is not None
    sys.exit(bad)
