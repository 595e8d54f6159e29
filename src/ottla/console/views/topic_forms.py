"""Forms that change a topic."""

from ottla.console.model import Form, Input


def create_form() -> Form:
    inputs = [
        Input("name", "Name", required=True),
        Input("partitions", "Partitions", "number", hint="empty: the broker's default"),
        Input("replication", "Replicas", "number", hint="empty: the broker's default"),
        Input("settings", "Settings", "textarea", hint="name=value lines, for example retention.ms=86400000"),
    ]
    return Form("create-topic", "Create", inputs, "Create a topic", folded=True)


def partition_forms(name: str, count: int) -> list[Form]:
    hidden = Input("topic", "", "hidden", name)
    grow = Form(
        "add-partitions",
        "Add",
        [hidden, Input("count", "Partitions in all", "number", str(count + 1), required=True)],
        "Add partitions",
        folded=True,
        note="Keys go to other partitions from then on; partitions cannot be taken away again.",
    )
    truncate = Form(
        "truncate",
        "Delete records",
        [
            hidden,
            Input("partition", "Partition", "number", hint="empty: all"),
            Input("before", "Before offset", "number", hint="empty: everything so far"),
            Input("confirm", "Type the topic's name to confirm", required=True),
        ],
        "Truncate",
        danger=True,
        folded=True,
    )
    return [grow, truncate]


def settings_form(name: str) -> Form:
    inputs = [
        Input("topic", "", "hidden", name),
        Input("setting", "Setting", required=True),
        Input("value", "Value", hint="empty: back to the default"),
    ]
    return Form("set-topic", "Change", inputs, "Change a setting", folded=True)


def delete_form(name: str) -> Form:
    inputs = [
        Input("topic", "", "hidden", name),
        Input("confirm", "Type the topic's name to confirm", required=True),
    ]
    return Form("delete-topic", "Delete the topic", inputs, "Delete this topic", danger=True, folded=True)
