package ojsworker

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

const (
	// closedGrace is what handlers get to end when ojs-init has closed the connection.
	closedGrace = time.Second
	// settleTime is how long we wait, after we said on our own that we take no more jobs, for one that was on its way.
	settleTime = 250 * time.Millisecond
	// brokenGrace is how long we go on reading when nothing can be written any more.
	brokenGrace       = 100 * time.Millisecond
	rememberedAnswers = 1024
	maxConcurrency    = 10_000
	maxTypes          = 10_000
	maxNameBytes      = 1024
)

// session is one connection: its reader, its writer, and the jobs that it holds. Run and Perform both use it.
type session struct {
	worker   *Worker
	conn     net.Conn
	out      *outbox
	values   context.Context
	log      *Logger
	changed  chan struct{}
	stopping chan struct{}
	// begun is closed when the handler begins; for Perform, which has one job.
	begun chan struct{}
	// isEnding is what an emptied outbox and an answer have to know without the lock.
	isEnding atomic.Bool

	mu          sync.Mutex
	held        map[string]*Job
	answers     map[string]string
	answerOrder []string
	slots       chan struct{}
	isGreeted   bool
	state       string
	deadline    time.Time
	hasDeadline bool
	maxFrame    int
	concurrency int
	workerID    string
	isStopping  bool
	isNotified  bool
	settledAt   time.Time
	cutOffAt    time.Time
	flushSince  time.Time
	closedAt    time.Time
	abandoned   int
	fatal       error
	said        map[string]bool
	notes       []note
	logging     int
}

func newSession(worker *Worker, conn net.Conn, values context.Context) *session {
	s := &session{
		worker: worker, conn: conn, values: values, log: worker.logger().careful(),
		changed: make(chan struct{}, 1), stopping: make(chan struct{}),
		held: map[string]*Job{}, answers: map[string]string{}, said: map[string]bool{},
		state: "running", maxFrame: defaultMaxFrame,
	}
	s.out = newOutbox(func() {
		if s.isEnding.Load() || s.out.failure() != nil {
			s.wake()
		}
	})
	return s
}

// start lets the connection be read and written. Both go on when the session is over, until the process ends: ojs-init
// judges a process by its connection, so it is not closed before.
func (s *session) start() {
	go s.out.run(s.conn)
	go func() {
		readLines(s.conn, s.lineLimit, s.onLine, func(size int) {
			s.log.Warn(fmt.Sprintf("a frame of %d bytes from ojs-init is ignored: max_frame is less", size))
		})
		s.onClosed()
	}()
}

// wake lets serve look again.
func (s *session) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// serve waits until there is nothing left to do. It never waits for a handler longer than it may.
func (s *session) serve(asked *control) error {
	for {
		isOver, err, patience := s.next(time.Now())
		if isOver {
			s.awaitLog()
			return err
		}
		var timer *time.Timer
		var expired <-chan time.Time
		if patience >= 0 {
			timer = time.NewTimer(patience)
			expired = timer.C
		}
		select {
		case <-s.changed:
		case <-expired:
		case <-asked.signals:
			s.onSignal()
		case <-asked.stop:
			asked.stop = nil
			s.beginStop()
		case <-asked.done:
			asked.done = nil
			s.beginStop()
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

// next is what has to be done now: end, or wait for so long; less than zero is for ever.
func (s *session) next(now time.Time) (isOver bool, err error, patience time.Duration) {
	s.mu.Lock()
	defer s.unlock()
	if s.fatal != nil {
		return true, s.fatal, 0
	}
	if s.closedAt.IsZero() && s.out.failure() != nil {
		// What the other end wrote before it closed is still to be read.
		s.closedAt = now.Add(brokenGrace)
		return false, nil, brokenGrace
	}
	if !s.closedAt.IsZero() {
		return s.nextWhenClosed(now)
	}
	if !s.cutOffAt.IsZero() && len(s.held) > 0 {
		if left := s.cutOffAt.Sub(now); left > 0 {
			return false, nil, left
		}
		s.note(nil, LevelError, fmt.Sprintf("%d handlers have not ended within %v of a signal", len(s.held),
			s.worker.stopGrace()))
		return true, ErrCutOff, 0
	}
	if !s.isStopping && s.state != "terminate" || len(s.held) > 0 {
		s.flushSince = time.Time{}
		return false, nil, -1
	}
	if !s.out.isFlushed() {
		if s.flushSince.IsZero() {
			s.flushSince = now
		}
		if left := s.flushSince.Add(writeTimeout).Sub(now); left > 0 {
			return false, nil, left
		}
		return true, fmt.Errorf("%w for %v; ending with answers that it has not got", ErrStalled, writeTimeout), 0
	}
	s.flushSince = time.Time{}
	if left := s.settledAt.Sub(now); s.state != "terminate" && left > 0 {
		return false, nil, left
	}
	return true, nil, 0
}

func (s *session) nextWhenClosed(now time.Time) (isOver bool, err error, patience time.Duration) {
	if left := s.closedAt.Sub(now); left > 0 {
		return false, nil, left
	}
	if !s.isNotified {
		s.isNotified = true
		s.abandoned = len(s.held)
		if s.abandoned > 0 {
			s.note(nil, LevelError, fmt.Sprintf("ojs-init has closed the connection: %d jobs are abandoned", s.abandoned))
		}
		for _, job := range s.held {
			s.cancelJob(job, "lost")
		}
	}
	if s.abandoned == 0 && (s.isStopping || s.state == "terminate") {
		return true, nil, 0
	}
	if len(s.held) == 0 {
		return true, ErrConnectionLost, 0
	}
	if left := s.closedAt.Add(closedGrace).Sub(now); left > 0 {
		return false, nil, left
	}
	s.note(nil, LevelError, fmt.Sprintf("%d handlers have not ended within %v of that", len(s.held), closedGrace))
	return true, ErrConnectionLost, 0
}

func (s *session) onClosed() {
	s.mu.Lock()
	s.closedAt = time.Now()
	s.mu.Unlock()
	s.out.close()
	s.isEnding.Store(true)
	s.wake()
}

// onSignal: ojs-init sends SIGTERM to those that are idle, and to those that it gives up on.
func (s *session) onSignal() {
	s.mu.Lock()
	defer s.unlock()
	if grace := s.worker.stopGrace(); s.cutOffAt.IsZero() && grace >= 0 {
		s.cutOffAt = time.Now().Add(grace)
	}
	// First of all no more jobs: one that came in the place of a cancelled one would be cut off.
	s.stopTaking()
	for _, job := range s.held {
		s.cancelJob(job, "shutdown")
	}
}

// beginStop says that we take no more jobs; those that are held are finished.
func (s *session) beginStop() {
	s.mu.Lock()
	defer s.unlock()
	s.stopTaking()
}

// stopTaking is called with the lock held.
func (s *session) stopTaking() {
	if s.isStopping {
		return
	}
	s.isStopping = true
	s.setEnding()
	if s.isGreeted && s.state != "terminate" {
		_ = s.out.send(s.worker.readyFrame(0), false)
		s.settledAt = time.Now().Add(settleTime)
	}
}

func (s *session) setEnding() {
	if !s.isEnding.Swap(true) {
		close(s.stopping)
	}
}

func (s *session) remaining() (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hasDeadline {
		return 0, false
	}
	if left := time.Until(s.deadline); left > 0 {
		return left, true
	}
	return 0, true
}

func (s *session) lineLimit() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	// White space around the frame counts as well here, so there is some to spare.
	return s.maxFrame + 4096
}

func (s *session) fits(line []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(line)-1 <= s.maxFrame
}

// What comes in

func (s *session) onLine(line []byte) {
	if skipSpace(line, 0) == len(line) {
		return
	}
	if !utf8.Valid(line) || !json.Valid(line) {
		s.onUnreadable(line)
		return
	}
	fields := map[string]json.RawMessage{}
	if err := members(line, func(name string, value json.RawMessage) { fields[name] = value }); err != nil {
		s.log.Warn("a frame from ojs-init is no JSON object and is ignored")
		return
	}
	kind, _ := stringIn(fields["type"])
	var err error
	switch kind {
	case "job":
		err = s.onJob(fields["job"], fields["checkpoint"])
	case "ping":
		if _, ok := integerIn(fields["id"]); ok {
			err = s.out.send(frame("pong", nil, field{"id", fields["id"]}), true)
		}
	case "cancel":
		err = s.onCancel(fields)
	case "lifecycle":
		err = s.onLifecycle(fields)
	case "hello":
		err = s.onHello(fields)
	case "ok":
		s.onOk(fields)
	case "error":
		s.onError(fields)
	default:
		s.log.Debug("a frame of an unknown type is ignored: " + clean(kind, 200))
	}
	if err != nil {
		s.log.Warn(fmt.Sprintf("a frame of the type %s from ojs-init is ignored: %v", clean(kind, 200), err))
	}
}

// onUnreadable fails the job in it, if only limits of this parser are in the way and it can be told which one it is.
func (s *session) onUnreadable(line []byte) {
	var job, id json.RawMessage
	if members(line, func(name string, value json.RawMessage) {
		if name == "job" {
			job = value
		}
	}) == nil && job != nil {
		_ = members(job, func(name string, value json.RawMessage) {
			if name == "id" {
				id = value
			}
		})
	}
	name, ok := stringIn(id)
	if !ok {
		s.log.Warn("a frame from ojs-init is not JSON in UTF-8 and is ignored")
		return
	}
	if mayTake, _ := s.mayTake(name, quoted(name)); !mayTake {
		return
	}
	s.refuse(name, quoted(name), "invalid_job", "the job cannot be read by Go: it is not JSON in UTF-8", false)
}

func (s *session) onHello(fields map[string]json.RawMessage) error {
	version, _ := integerIn(fields["protocol"])
	s.mu.Lock()
	defer s.unlock()
	if version != protocolVersion {
		s.setFatal(fmt.Errorf("%w: version %s, this is %d", ErrProtocol, clean(string(fields["protocol"]), 50),
			protocolVersion))
		return nil
	}
	if s.isGreeted {
		return nil
	}
	s.isGreeted = true
	s.workerID, _ = stringIn(fields["worker_id"])
	if size, ok := integerIn(fields["max_frame"]); ok && size > 0 && size < 1<<31 {
		s.maxFrame = int(size)
	}
	offered, ok := integerIn(fields["concurrency"])
	if !ok || offered < 1 {
		offered = 1
	} else if offered > maxConcurrency {
		offered = maxConcurrency
	}
	s.concurrency = int(offered)
	if wanted := s.worker.options.Concurrency; wanted > 0 && wanted < s.concurrency {
		s.concurrency = wanted
	}
	s.slots = make(chan struct{}, s.concurrency)
	if state, ok := stringIn(fields["state"]); ok {
		s.setState(state, "at start")
	}
	if s.isStopping || s.state == "terminate" {
		s.wake()
		return nil
	}
	ready := s.worker.readyFrame(s.concurrency)
	if len(ready)-1 > s.maxFrame {
		s.setFatal(fmt.Errorf("%w: the names of all job types have %d bytes, it takes %d: register fewer, or %q",
			ErrProtocol, len(ready), s.maxFrame, "*"))
		return nil
	}
	return s.out.send(ready, false)
}

func (s *session) setFatal(err error) {
	if s.fatal == nil {
		s.fatal = err
		s.wake()
	}
}

func (s *session) onLifecycle(fields map[string]json.RawMessage) error {
	state, _ := stringIn(fields["state"])
	if state != "running" && state != "quiet" && state != "terminate" {
		return fmt.Errorf("no such state: %s", clean(state, 50))
	}
	reason, _ := stringIn(fields["reason"])
	s.mu.Lock()
	defer s.unlock()
	if left, ok := integerIn(fields["remaining_ms"]); ok && state == "terminate" {
		const longest = int64(365 * 24 * time.Hour / time.Millisecond)
		if left > longest {
			left = longest
		}
		s.deadline = time.Now().Add(time.Duration(left) * time.Millisecond)
		s.hasDeadline = true
	}
	s.setState(state, clean(reason, 50))
	return nil
}

// setState is told by ojs-init; terminate is never taken back. With the lock held.
func (s *session) setState(state, reason string) {
	if s.state == state || s.state == "terminate" {
		return
	}
	if s.begun == nil {
		s.note(nil, LevelInfo, fmt.Sprintf("%s (%s)", state, reason))
	}
	s.state = state
	if state == "terminate" {
		s.setEnding()
		s.wake()
	}
}
