"""Reads the statistics of a server repeatedly, while clients load it."""

import dataclasses

import process

# The time between two samples in seconds.
PERIOD_SECONDS = 0.05


@dataclasses.dataclass(frozen=True)
class Sample:
    """Statistics of a server at one time."""

    # The number of gets since the start of the server.
    gets: int
    # The number of gets that missed.
    misses: int
    # The number of pages that were moved since the start of the server.
    moved: int
    # The number of items that were evicted since the start of the server.
    evicted: int
    # The number of items in the cache, and the sum of their sizes.
    items: int
    item_bytes: int
    # The sum of the sizes of all items that were stored since the first sample. It is computed from the number of items
    # that were stored, and from the mean size of the items in the cache.
    stored_bytes: float
    # The number of pages that hold memory, and the size of a page.
    pages: int
    page_bytes: float
    # The sum of the sizes of the free chunks and of the pages that no class owns.
    free_bytes: float
    # The memory limit in bytes.
    limit_bytes: int

    @property
    def free_share(self):
        return self.free_bytes / self.limit_bytes


class Sampler(process.Background):
    """Takes samples as long as the `with` block runs, and one at its end. `samples` has the samples, oldest first."""

    def __init__(self, server):
        super().__init__()
        self.client = server.client()
        self.samples = []
        self.stored_items = 0
        self.stored_bytes = 0.0

    def work(self):
        while not self.stop.wait(PERIOD_SECONDS):
            self.samples.append(self._sample())

    def _sample(self):
        stats, slabs = self.client.stats(), self.client.stats("slabs")
        value = lambda name: int(stats[name])
        items, stored_items = value("curr_items"), value("total_items")
        mean_bytes = value("bytes") / max(items, 1)
        self.stored_bytes += (stored_items - self.stored_items) * mean_bytes
        self.stored_items = stored_items
        of_classes = lambda name: {
            key.split(":")[0]: int(number) for key, number in slabs.items() if key.endswith(f":{name}")
        }
        free_chunks, chunk_bytes = of_classes("free_chunks"), of_classes("chunk_size")
        free_pages = value("slab_global_page_pool")
        pages = sum(of_classes("total_pages").values()) + free_pages
        page_bytes = int(slabs["total_malloced"]) / max(pages, 1)
        return Sample(
            gets=value("cmd_get"),
            misses=value("get_misses"),
            moved=value("slabs_moved"),
            evicted=value("evictions"),
            items=items,
            item_bytes=value("bytes"),
            stored_bytes=self.stored_bytes,
            pages=pages,
            page_bytes=page_bytes,
            free_bytes=free_pages * page_bytes
            + sum(count * chunk_bytes[name] for name, count in free_chunks.items()),
            limit_bytes=value("limit_maxbytes"),
        )

    def __exit__(self, *exception):
        super().__exit__(*exception)
        self.samples.append(self._sample())
        self.client.disconnect()

    def after_turnover(self):
        """Returns the samples after the first turnover of a cache that evicts: those after the first eviction, and after
        the sum of the sizes of the stored items has reached the memory limit. Stores that replace items fill no memory.
        Fails if there are none."""
        is_later = lambda sample: sample.evicted > 0 and sample.stored_bytes >= sample.limit_bytes
        found = [sample for sample in self.samples if is_later(sample)]
        last = self.samples[-1]
        assert found, f"only {last.stored_bytes:,.0f} B were stored, but the memory limit is {last.limit_bytes:,} B"
        return found

    def at_gets(self, gets):
        """Returns the first sample with at least this number of gets."""
        return next(sample for sample in self.samples if sample.gets >= gets)


def percentile(values, percent):
    """Returns the smallest of the values that at least `percent` percent of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
