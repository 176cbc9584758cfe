package ojsworker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// writeTimeout is how long a frame may wait for ojs-init to read.
	writeTimeout = 10 * time.Second
	// maxWaiting is how many frames may wait; no ojs-init that works asks for so many.
	maxWaiting = 100_000
	// writeBudget is how many bytes are given to the kernel at once, one longer frame apart.
	writeBudget = 256 * 1024
	readSize    = 64 * 1024
	// fullAfter is how long a writing takes when the socket is full, and fullFrom how many frames wait then.
	fullAfter = 20 * time.Millisecond
	fullFrom  = 64
)

// outgoing is a frame on its way out.
type outgoing struct {
	data []byte
	// version counts the texts that the frame had: who waits for it knows by that whether the text is still its own.
	version int
	// done is closed once the frame was written, or never will be; nil if nobody waits.
	done  chan struct{}
	taken bool
	// err is why it was not written; to be read when done is closed.
	err error
}

// outbox holds what is to be written. Any goroutine may send; one writes, so frames never mix and nobody else waits.
type outbox struct {
	mu      sync.Mutex
	filled  *sync.Cond
	urgent  []*outgoing
	queue   []*outgoing
	writing bool
	// since is when the present writing began.
	since  time.Time
	closed bool
	// fullAfter and fullFrom say when the other end reads too slowly, so that newer frames take the place of others.
	fullAfter time.Duration
	fullFrom  int
	// patience is how long somebody waits for a frame of its own.
	patience time.Duration
	// changed is called, without the lock, when all is written or writing has failed.
	changed func()
	err     error
}

func newOutbox(changed func()) *outbox {
	o := &outbox{changed: changed, fullAfter: fullAfter, fullFrom: fullFrom, patience: writeTimeout}
	o.filled = sync.NewCond(&o.mu)
	return o
}

// send queues a frame, an urgent one before all others.
func (o *outbox) send(data []byte, urgent bool) error {
	_, err := o.put(&outgoing{data: data}, urgent)
	return err
}

func (o *outbox) put(item *outgoing, urgent bool) (*outgoing, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, ErrConnectionLost
	}
	if len(o.queue)+len(o.urgent) >= maxWaiting {
		o.fail(fmt.Errorf("%w: %d frames wait", ErrStalled, maxWaiting))
		return nil, o.err
	}
	if urgent {
		o.urgent = append(o.urgent, item)
	} else {
		o.queue = append(o.queue, item)
	}
	o.filled.Signal()
	return item, nil
}

// replace gives a frame another text when it still waits because the other end reads too slowly, and says which version
// that is; else it is false.
func (o *outbox) replace(item *outgoing, data []byte) (version int, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	isFull := o.writing && time.Since(o.since) >= o.fullAfter || len(o.queue) >= o.fullFrom
	if item == nil || item.taken || o.closed || !isFull {
		return 0, false
	}
	item.data = data
	item.version++
	return item.version, true
}

// drop takes a frame back that waits because the other end reads too slowly.
func (o *outbox) drop(item *outgoing) { o.replace(item, nil) }

// await returns when the frame was written, with this text or a newer one, or when that took too long.
func (o *outbox) await(item *outgoing, version int, patience time.Duration) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-item.done:
		return item.err
	case <-timer.C:
	}
	stalled := fmt.Errorf("%w for %v", ErrStalled, patience)
	o.withdraw(item, version, stalled)
	// It may be half written by now, or belong to somebody else, who is as patient. Nobody waits for ever.
	timer.Reset(patience)
	select {
	case <-item.done:
		return item.err
	case <-timer.C:
		return stalled
	}
}

// withdraw takes back a frame of which nothing was written yet, unless somebody else has put a newer text into it.
func (o *outbox) withdraw(item *outgoing, version int, why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if item.taken || item.version != version {
		return
	}
	for at, waiting := range o.queue {
		if waiting == item {
			o.queue = append(o.queue[:at:at], o.queue[at+1:]...)
			break
		}
	}
	// Nothing goes into it any more, and whose older text was in it learns that it is gone.
	item.taken = true
	item.finish(why)
}

// failure is why nothing more is written; nil as long as it is.
func (o *outbox) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

func (o *outbox) isFlushed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.writing && len(o.queue) == 0 && len(o.urgent) == 0
}

// fail ends the writing; with the lock held.
func (o *outbox) fail(err error) {
	if o.closed {
		return
	}
	o.closed = true
	o.err = err
	for _, items := range [][]*outgoing{o.urgent, o.queue} {
		for _, item := range items {
			item.taken = true
			item.finish(err)
		}
	}
	o.urgent, o.queue = nil, nil
	o.filled.Signal()
}

func (item *outgoing) finish(err error) {
	item.err = err
	if item.done != nil {
		close(item.done)
	}
}

// close lets run return; what waits is thrown away.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fail(ErrConnectionLost)
}

// run writes until it fails or close is called.
func (o *outbox) run(to io.Writer) {
	var buffer []byte
	for {
		batch := o.take()
		if batch == nil {
			return
		}
		buffer = buffer[:0]
		for _, item := range batch {
			buffer = append(buffer, item.data...)
		}
		_, err := to.Write(buffer)
		if cap(buffer) > 4*writeBudget {
			buffer = nil
		}
		if err != nil {
			err = fmt.Errorf("%w: %v", ErrConnectionLost, err)
		}
		o.mu.Lock()
		o.writing = false
		for _, item := range batch {
			item.finish(err)
		}
		if err != nil {
			o.fail(err)
		}
		isIdle := len(o.queue) == 0 && len(o.urgent) == 0
		o.mu.Unlock()
		if isIdle {
			o.changed()
		}
	}
}

// take waits for frames and takes as many as go out at once; nil at the end.
func (o *outbox) take() []*outgoing {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.queue) == 0 && len(o.urgent) == 0 && !o.closed {
		o.filled.Wait()
	}
	if o.closed {
		return nil
	}
	var batch []*outgoing
	size := 0
	for _, from := range []*[]*outgoing{&o.urgent, &o.queue} {
		for len(*from) > 0 && size < writeBudget {
			item := (*from)[0]
			(*from)[0] = nil
			*from = (*from)[1:]
			item.taken = true
			size += len(item.data)
			batch = append(batch, item)
		}
	}
	o.writing, o.since = true, time.Now()
	return batch
}

// readLines calls found with each line of the stream, without its line break, until the stream ends. A line may be
// kept. One that is longer than limit() is thrown away, and tooLong told its length.
func readLines(from io.Reader, limit func() int, found func(line []byte), tooLong func(size int)) {
	buffer := make([]byte, 0, readSize)
	thrown := 0
	for {
		if len(buffer) == cap(buffer) {
			buffer = append(make([]byte, 0, 2*cap(buffer)), buffer...)
		}
		n, err := from.Read(buffer[len(buffer):cap(buffer)])
		searched := len(buffer)
		buffer = buffer[:searched+n]
		start := 0
		for {
			end := bytes.IndexByte(buffer[searched:], '\n')
			if end < 0 {
				break
			}
			end += searched
			if size := thrown + end - start; thrown > 0 || size > limit() {
				tooLong(size)
			} else {
				found(append(make([]byte, 0, end-start), buffer[start:end]...))
			}
			thrown = 0
			start, searched = end+1, end+1
		}
		rest := copy(buffer, buffer[start:])
		buffer = buffer[:rest]
		if rest > limit() {
			thrown += rest
			buffer = buffer[:0]
		}
		if rest == 0 && cap(buffer) > 4*readSize {
			buffer = make([]byte, 0, readSize)
		}
		if err != nil && !errors.Is(err, io.ErrNoProgress) {
			return
		}
	}
}
