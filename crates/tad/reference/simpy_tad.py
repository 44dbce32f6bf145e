"""The simulation framework of the dissertation (section 4.1, Table 4.1) on simpy.

It is the reference for the simulator in Rust: the same systems, exported as tables, must give the
same results here, from code that was written from the description and shares nothing with it.
Time is in nanoseconds.

    simpy_tad.py EXPORT.json [--seed N] [--duration-ns N]

prints one JSON object.
"""

import argparse
import collections
import json
import random
import sys
import time

import simpy


class Resource:
    """Servers of a fixed rate; who consumes blocks until it is done."""

    def __init__(self, env, rate_per_s, parallelism, clients):
        self.env = env
        self.ns_per_unit = 1e9 / rate_per_s
        self.parallelism = parallelism
        self.servers = simpy.Resource(env, capacity=parallelism)
        self.busy_ns = [0] * clients

    def service_ns(self, amount):
        return int(amount * self.ns_per_unit)

    def consume(self, amount, client):
        request = self.servers.request()
        yield request
        service = self.service_ns(amount)
        yield self.env.timeout(service)
        self.busy_ns[client] += service
        self.servers.release(request)


class FifoScheduler:
    """As they came."""

    def __init__(self, clients, weights, resources):
        self.queue = collections.deque()

    def put(self, part):
        self.queue.append(part)

    def __len__(self):
        return len(self.queue)

    def get_req(self, able=None):
        if able is None:
            return self.queue.popleft() if self.queue else None
        for part in self.queue:
            if able(part):
                self.queue.remove(part)
                return part
        return None

    def charge(self, client, resource, cost_ns):
        pass


class FairScheduler:
    """Weighted fair queueing for dominant resource fairness: the client whose largest virtual time
    is smallest is next; who comes back starts where the others are."""

    def __init__(self, clients, weights, resources):
        self.weights = weights
        self.time = [[0.0] * resources for _ in range(clients)]
        self.reached = [0.0] * resources
        self.queues = [collections.deque() for _ in range(clients)]
        self.length = 0

    def put(self, part):
        queue = self.queues[part.client]
        if not queue:
            mine = self.time[part.client]
            for resource, reached in enumerate(self.reached):
                if mine[resource] < reached:
                    mine[resource] = reached
        queue.append(part)
        self.length += 1

    def __len__(self):
        return self.length

    def get_req(self, able=None):
        best, least = None, None
        for client, queue in enumerate(self.queues):
            if queue and (able is None or any(able(part) for part in queue)):
                dominant = max(self.time[client])
                if least is None or dominant < least:
                    best, least = client, dominant
        if best is None:
            return None
        mine = self.time[best]
        for resource, time_ns in enumerate(mine):
            if self.reached[resource] < time_ns:
                self.reached[resource] = time_ns
        self.length -= 1
        queue = self.queues[best]
        if able is None:
            return queue.popleft()
        for part in queue:
            if able(part):
                queue.remove(part)
                return part
        return None

    def charge(self, client, resource, cost_ns):
        self.time[client][resource] += cost_ns / self.weights[client]


SCHEDULERS = {"fifo": FifoScheduler, "drf": FairScheduler}


class SchedulingPoint:
    """A scheduler and the workers that sleep at it. Several stages may share one."""

    def __init__(self, env, scheduler, concurrency=None):
        self.env = env
        self.scheduler = scheduler
        self.concurrency = concurrency
        self.in_service = 0
        self.stages = []

    def put(self, part):
        self.scheduler.put(part)
        self.wake()

    def wake(self):
        """Gives parts to idle workers while there are both."""
        while len(self.scheduler) and (
            self.concurrency is None or self.in_service < self.concurrency
        ):
            if len(self.stages) == 1:
                stage = self.stages[0]
                if not stage.idle:
                    return
                part = self.scheduler.get_req()
            else:
                part = self.scheduler.get_req(lambda part: part.stage.idle)
            if part is None:
                return
            self.in_service += 1
            part.stage.charge_known(part)
            part.stage.idle.pop().succeed(part)

    def free(self):
        self.in_service -= 1


class Stage:
    """Workers that pick parts, consume resources for them, submit what follows and wait for it."""

    def __init__(self, sim, spec, node):
        self.sim = sim
        self.env = sim.env
        self.node = node
        self.asynchronous = spec["asynchronous"]
        self.threads = spec["threads"]
        self.point = None
        self.idle = []

    def start(self, point):
        self.point = point
        point.stages.append(self)
        for _ in range(self.threads):
            self.env.process(self.worker())

    def submit(self, part):
        part.stage = self
        if self.point is None:
            self.env.process(self.serve(part))
        else:
            self.point.put(part)

    def charge_known(self, part):
        """The cost function: what the queue knows that the part will consume."""
        if part.resumed:
            return
        step = part.step
        for resource, cost_ns in step.known:
            self.point.scheduler.charge(part.client, resource, cost_ns)
        self.point.scheduler.charge(part.client, -1, 1)

    def charge_unknown(self, part, resource, amount):
        if self.point is not None:
            entry = self.sim.resources[resource][self.node]
            cost = entry.service_ns(amount) / entry.parallelism
            self.point.scheduler.charge(part.client, self.sim.local[resource], cost)

    def worker(self):
        while True:
            event = self.env.event()
            self.idle.append(event)
            self.point.wake()
            part = yield event
            yield from self.serve(part)
            self.point.free()

    def consume(self, part, uses):
        for resource, amount, unknown in uses:
            if unknown:
                self.charge_unknown(part, resource, amount)
            yield from self.sim.resources[resource][self.node].consume(amount, part.client)
            self.sim.uses += 1

    def serve(self, part):
        step = part.step
        if not part.resumed:
            yield from self.consume(part, step.uses)
            for name in step.submits:
                self.sim.submit(part.request.parts[name], self.node)
            if part.waits_for:
                part.done_waiting = self.env.event()
                if self.asynchronous:
                    # The thread goes on; a thread is found again when the wait is over.
                    self.env.process(self.resume(part))
                    return
                # What waits for others is not worked on: its place in a shared queue is free.
                if self.point is not None:
                    self.point.free()
                    self.point.wake()
                yield part.done_waiting
                if self.point is not None:
                    self.point.in_service += 1
        yield from self.consume(part, step.uses_after)
        self.sim.finished(part, self.node)

    def resume(self, part):
        yield part.done_waiting
        part.resumed = True
        if part.step.uses_after and self.point is not None:
            self.point.put(part)
        else:
            yield from self.serve(part)


class Step:
    """What one stage does for requests of a kind: stage, resource profile and what follows."""

    def __init__(self, sim, spec):
        self.__dict__.update(spec)
        known = collections.Counter()
        for resource, amount, unknown in self.uses + self.uses_after:
            if not unknown:
                entry = sim.spec["resources"][resource]
                cost = amount * 1e9 / (entry["rate_per_s"] * entry["parallelism"])
                known[sim.local[resource]] += int(cost)
        self.known = [pair for pair in known.items() if pair[1]]


class StageRequest:
    """A part of a request."""

    __slots__ = ("request", "step", "client", "stage", "waits_for", "done_waiting", "resumed")

    def __init__(self, request, step, client):
        self.request = request
        self.step = step
        self.client = client
        self.stage = None
        self.waits_for = step.waits
        self.done_waiting = None
        self.resumed = False


class Request:
    """A request and all its parts."""

    __slots__ = ("parts", "answers", "answered", "partition", "origin")

    def __init__(self, steps, client, answers, answered):
        self.parts = [StageRequest(self, step, client) for step in steps]
        self.answers = answers
        self.answered = answered


class Simulation:
    """Everything, from an export."""

    def __init__(self, spec, seed):
        self.spec = spec
        self.env = simpy.Environment()
        self.random = random.Random(seed)
        self.uses = 0
        self.parts = 0
        clients = len(spec["clients"])
        weights = [client["weight"] for client in spec["clients"]]
        self.resources = []
        self.local = list(range(len(spec["resources"])))
        for entry in spec["resources"]:
            self.resources.append(
                [
                    Resource(self.env, entry["rate_per_s"], entry["parallelism"], clients)
                    for _ in range(entry["nodes"])
                ]
            )
        width = len(self.resources) + 1
        make = lambda policy: SCHEDULERS[policy](clients, weights, width)
        self.stages = []
        shared = {}
        for entry in spec["stages"]:
            nodes = []
            for node in range(entry["nodes"]):
                instances = [Stage(self, entry, node) for _ in range(entry["instances"])]
                nodes.append(instances)
                for stage in instances:
                    if entry["threads"] is None:
                        continue
                    if entry["shared"] is None:
                        point = SchedulingPoint(self.env, make(entry["policy"]))
                    else:
                        key = (entry["shared"], node)
                        if key not in shared:
                            bound = spec["shared_concurrency"][entry["shared"]]
                            shared[key] = SchedulingPoint(self.env, make(entry["policy"]), bound)
                        point = shared[key]
                    stage.start(point)
            self.stages.append(nodes)
        self.partitions = max(len(nodes) * len(nodes[0]) for nodes in self.stages)
        self.loads = []
        for entry in spec["loads"]:
            entry["built"] = [Step(self, step) for step in entry["steps"]]
            load = {"answered": 0, "latency_ns": 0}
            self.loads.append(load)
            for thread in range(entry["threads"]):
                self.env.process(self.thread(entry, load, thread))

    def thread(self, entry, load, number):
        """A thread of a closed loop."""
        env = self.env
        yield env.timeout(self.random.randrange(1_000_000))
        nodes = self.stages[entry["built"][entry["first"]].stage]
        warmup = self.spec["warmup_ns"]
        while True:
            issued = env.now
            answered = env.event()
            request = Request(entry["built"], entry["client"], entry["answers"], answered)
            request.partition = (
                self.random.randrange(self.partitions)
                if entry["keys"] == "uniform"
                else entry["keys"]
            )
            if entry["entry"] == "any":
                node = self.random.randrange(len(nodes))
            elif entry["entry"] == "each":
                node = number % len(nodes)
            elif entry["entry"] == "partition":
                node = request.partition % len(nodes)
            else:
                node = entry["entry"] % len(nodes)
            request.origin = node
            instances = nodes[node]
            instance = request.partition // len(nodes) % len(instances)
            instances[instance].submit(request.parts[entry["first"]])
            yield answered
            if env.now >= warmup:
                load["answered"] += 1
                load["latency_ns"] += env.now - issued
            if entry["think_ns"]:
                yield env.timeout(entry["think_ns"])

    def submit(self, part, origin):
        nodes = self.stages[part.step.stage]
        count = len(nodes)
        place = part.step.place
        if place == "same":
            node = origin % count
        elif place == "any":
            node = self.random.randrange(count)
        elif place == "other":
            node = (origin + 1 + self.random.randrange(count - 1)) % count if count > 1 else 0
        elif place == "partition":
            node = part.request.partition % count
        elif place == "origin":
            node = part.request.origin % count
        else:
            node = place % count
        instances = nodes[node]
        instances[part.request.partition // count % len(instances)].submit(part)

    def finished(self, part, node):
        self.parts += 1
        request = part.request
        for name in part.step.then:
            self.submit(request.parts[name], node)
        for name in part.step.waited_by:
            other = request.parts[name]
            other.waits_for -= 1
            if other.waits_for == 0 and other.done_waiting is not None:
                other.done_waiting.succeed()
        if part.step.answers:
            request.answers -= 1
            if request.answers == 0:
                request.answered.succeed()

    def busy(self):
        return [
            [sum(node.busy_ns[c] for node in nodes) for c in range(len(self.spec["clients"]))]
            for nodes in self.resources
        ]

    def run(self):
        self.env.run(until=self.spec["warmup_ns"] or 1)
        before = self.busy()
        self.env.run(until=self.spec["duration_ns"])
        counted_s = (self.spec["duration_ns"] - self.spec["warmup_ns"]) / 1e9
        clients = [{"throughput_per_s": 0.0} for _ in self.spec["clients"]]
        loads = []
        for entry, load in zip(self.spec["loads"], self.loads):
            throughput = load["answered"] / counted_s
            clients[entry["client"]]["throughput_per_s"] += throughput
            loads.append(
                {
                    "name": entry["name"],
                    "client": entry["client"],
                    "throughput_per_s": throughput,
                    "latency_ms_mean": load["latency_ns"] / max(load["answered"], 1) / 1e6,
                }
            )
        resources = []
        for entry, then, now in zip(self.spec["resources"], before, self.busy()):
            capacity_ns = counted_s * 1e9 * entry["nodes"] * entry["parallelism"]
            resources.append(
                {
                    "name": entry["name"],
                    "by_client": [(b - a) / capacity_ns for a, b in zip(then, now)],
                }
            )
        return {"clients": clients, "loads": loads, "resources": resources}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("export")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--duration-ns", type=int)
    arguments = parser.parse_args()
    with open(arguments.export, encoding="utf-8") as file:
        spec = json.load(file)
    if arguments.duration_ns:
        spec["duration_ns"] = arguments.duration_ns
        spec["warmup_ns"] = min(spec["warmup_ns"], arguments.duration_ns // 2)
    simulation = Simulation(spec, arguments.seed)
    started, cpu_started = time.perf_counter(), time.process_time()
    result = simulation.run()
    result["wall_s"] = time.perf_counter() - started
    result["cpu_s"] = time.process_time() - cpu_started
    result["parts"] = simulation.parts
    result["uses"] = simulation.uses
    result["simpy"] = simpy.__version__
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
