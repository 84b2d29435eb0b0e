"""Functions for workflows. With `MEMWELL_FUNCTIONS=shop_functions`, servers and commands that run in this folder have them."""

from memwell import function

ORDERS = {"A-17": "shipped yesterday", "B-2": "waiting for payment"}


@function
def lookup_order(order: str) -> str:
    """Looks up an order by its number."""
    return ORDERS.get(order, "There is no such order.")
