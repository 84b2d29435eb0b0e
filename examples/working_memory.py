"""Working memory: records about a customer that an assistant reads and updates, with a schema, a scope and a lifetime."""

import tempfile
import time

from memwell import Invalid, Memory

PROFILE = {
    "type": "object",
    "properties": {
        "preferred_name": {"type": "string", "description": "The name to call the customer by."},
        "language": {"type": "string", "description": "The language to answer in."},
        "interests": {"type": "array", "items": {"type": "string"}, "description": "Products that matter to them."},
    },
}
STEP = {"type": "object", "properties": {"step": {"type": "integer"}}}

with tempfile.TemporaryDirectory() as folder, Memory(folder) as memory:
    # A definition has the schema of its records. Its slug comes from its name.
    profile = memory.definitions.create("Customer Profile", schema=PROFILE)
    print(f"definition: {profile.name} is {profile.slug}, scope {profile.scope}, no lifetime")

    # The view of one customer: values, a text for the system prompt, and a tool for the model.
    ada = memory.definitions.bind(["customer_profile"], owner="ada")
    print("known at first:", ada.values)
    called = {  # the arguments of the tool call
        "memory": {
            "customer_profile": {"preferred_name": "Ada", "language": "en", "interests": ["billing", "enterprise plan"]}
        }
    }
    ada.update(called)
    print(ada.prompt("You are a helpful clerk."))

    # The tool, in the format of a provider, accepts only the bound definitions.
    tool = ada.tool("anthropic") or {}
    print("tool:", tool["name"], "for", list(tool["input_schema"]["properties"]["memory"]["properties"]))
    for mistake in ({"customer_profile": {"shoe_size": 39}}, {"orders": {"last": 7}}):
        try:
            ada.update(mistake)
        except Invalid as error:
            print("refused:", error.message)

    # An update is the new value; `merge` keeps the other fields.
    ada.update({"customer_profile": {"language": "pt"}}, mode="merge")
    print("merged:", ada.values["customer_profile"])
    ada.update({"customer_profile": {"preferred_name": "Countess"}})
    print("replaced:", ada.values["customer_profile"])

    # A global record belongs to a customer in all workflows. The other scopes are narrower.
    print("another customer:", memory.definitions.bind(["customer_profile"], owner="bob").values)
    memory.definitions.create("Funnel", schema=STEP, scope="workflow")
    memory.definitions.create("Complaint", schema=STEP, scope="thread")
    memory.definitions.create("Scratch", schema=STEP, scope="run")
    slugs = ["funnel", "complaint", "scratch"]
    monday = memory.definitions.bind(slugs, owner="ada", workflow="support", thread="monday", run="1")
    monday.update({slug: {"step": 3} for slug in slugs})
    tuesday = memory.definitions.bind(slugs, owner="ada", workflow="support", thread="tuesday", run="2")
    print("the same workflow in another thread and run:", tuesday.values)
    selling = memory.definitions.bind(slugs, owner="ada", workflow="sales", thread="monday", run="3")
    print("the same thread in another workflow and run:", selling.values)
    memory.definitions.end(run="1")
    monday.refresh()
    print("after the run:", monday.values)

    # A lifetime is counted from the last write.
    memory.definitions.create("Code Word", ttl_seconds=1)
    short = memory.definitions.bind(["code_word"], owner="ada")
    short.update({"code_word": {"word": "marmalade"}})
    print("for a second:", short.values)
    time.sleep(1.1)
    short.refresh()
    print("then:", short.values)

    # Workflows read it in their templates; missing values are empty.
    greeting = {
        "name": "greet",
        "steps": [{"step_type": "text", "template": "Hello {{memory.customer_profile.preferred_name}}!"}],
    }
    for customer in ("ada", "bob"):
        print(f"greeting {customer}:", memory.workflows.run(greeting, owner=customer).output)

    # A schema that stored records do not match is rejected by default.
    tighter = {**PROFILE, "required": ["language"]}
    print("would break:", memory.definitions.check("customer_profile", tighter).breaking, "record")

    # The same record, read as a record of the user, and its erasure.
    print("of the person:", memory.user("ada").records["customer_profile"])
    print("traces left:", memory.user("ada").forget().residual)
