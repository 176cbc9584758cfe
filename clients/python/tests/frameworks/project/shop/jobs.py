from typing import Dict

from django.db import connection, models
from shop.models import Order

from ojs_worker.contrib.django import worker


@worker.job("order.place")
def place(title: str, count: int) -> Dict[str, int]:
    return {"id": Order.objects.create(title=title, count=count).pk}


@worker.job("order.count")
def count() -> int:
    return Order.objects.aggregate(total=models.Sum("count"))["total"] or 0


@worker.job("order.state")
def state() -> Dict[str, object]:
    return {"is_open": connection.connection is not None, "queries": len(connection.queries)}
