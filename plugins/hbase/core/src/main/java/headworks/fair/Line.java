package headworks.fair;

import java.util.Arrays;

/** Flows that have something at one stage, the one with the smallest virtual time first. Ties: the lower number. */
final class Line {
    private static final int ABSENT = -1;

    private final Fair fair;
    private int[] heap = new int[8];
    /** Where each flow stands in the heap. */
    private int[] place = new int[0];
    private int size;

    Line(Fair fair) {
        this.fair = fair;
    }

    boolean isEmpty() {
        return size == 0;
    }

    int size() {
        return size;
    }

    /** The flow to serve next. */
    int first() {
        return heap[0];
    }

    void add(int flow) {
        if (flow >= place.length) {
            int flows = place.length;
            place = Arrays.copyOf(place, Math.max(flow + 1, Math.max(8, flows + flows / 2)));
            Arrays.fill(place, flows, place.length, ABSENT);
        }
        if (place[flow] != ABSENT) {
            return;
        }
        if (size == heap.length) {
            heap = Arrays.copyOf(heap, size * 2);
        }
        put(flow, size++);
        up(place[flow]);
    }

    void remove(int flow) {
        int at = flow < place.length ? place[flow] : ABSENT;
        if (at == ABSENT) {
            return;
        }
        place[flow] = ABSENT;
        int last = heap[--size];
        if (last != flow) {
            put(last, at);
            up(at);
            down(place[last]);
        }
    }

    /** The flow's virtual time has grown. */
    void later(int flow) {
        if (flow < place.length && place[flow] != ABSENT) {
            down(place[flow]);
        }
    }

    private void put(int flow, int at) {
        heap[at] = flow;
        place[flow] = at;
    }

    private boolean before(int a, int b) {
        long left = fair.dominant(a);
        long right = fair.dominant(b);
        return left < right || left == right && a < b;
    }

    private void up(int at) {
        int flow = heap[at];
        while (at > 0 && before(flow, heap[(at - 1) / 2])) {
            put(heap[(at - 1) / 2], at);
            at = (at - 1) / 2;
        }
        put(flow, at);
    }

    private void down(int at) {
        int flow = heap[at];
        while (2 * at + 1 < size) {
            int child = 2 * at + 1;
            if (child + 1 < size && before(heap[child + 1], heap[child])) {
                child++;
            }
            if (!before(heap[child], flow)) {
                break;
            }
            put(heap[child], at);
            at = child;
        }
        put(flow, at);
    }
}
