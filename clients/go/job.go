package ojsworker

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"
)

// Job is what a handler is given. Its methods may be called from any goroutine.
type Job struct {
	// ID is the same in each delivery of the job.
	ID string
	// Type decides which handler takes it.
	Type string
	// Queue is where it came from; "default" if the backend does not say.
	Queue string
	// Attempt is the number of this attempt, as the backend counts: some begin with 0. -1 if it does not say.
	Attempt int
	// Args are its arguments. Numbers are json.Number and so exact; Bind and HandleTyped give them as your own types.
	Args []any
	// Meta is its metadata: trace context, tenant and other things that travel with the job.
	Meta map[string]any

	raw         json.RawMessage
	rawID       json.RawMessage
	rawArgs     json.RawMessage
	maxAttempts int64
	deadline    time.Time
	hasDeadline bool
	logLevel    *Level
	resume      resume
	session     *session
	handler     Handler
	origin      any
	ctx         context.Context
	cancel      context.CancelFunc

	mu     sync.Mutex
	reason string
	// Guarded by the session's lock: the answer is given.
	isOver bool
	// Guarded by the session's lock: the newest of each that may still wait.
	waitingProgress   *outgoing
	waitingCheckpoint *outgoing
	waitingHeartbeat  *outgoing
}

type jobKey struct{}

// jobContext is the context of a handler: it carries the values of the context given to Run, the job, and the job's
// deadline. It is done when the job is cancelled, and only then.
type jobContext struct {
	context.Context
	values context.Context
	job    *Job
}

func (c jobContext) Value(key any) any {
	if key == (jobKey{}) {
		return c.job
	}
	if value := c.Context.Value(key); value != nil {
		return value
	}
	return c.values.Value(key)
}

func (c jobContext) Deadline() (time.Time, bool) {
	return c.job.deadline, c.job.hasDeadline
}

// FromContext is the job whose handler got this context, or one made from it; nil outside of a handler.
func FromContext(ctx context.Context) *Job {
	job, _ := ctx.Value(jobKey{}).(*Job)
	return job
}

// newJob reads an envelope. The text must be JSON.
func newJob(raw, checkpoint json.RawMessage, received time.Time) (*Job, error) {
	job := &Job{Queue: "default", Attempt: -1, raw: raw, rawArgs: json.RawMessage("[]")}
	var kind, timeout, timeoutMS json.RawMessage
	err := members(raw, func(name string, value json.RawMessage) {
		switch name {
		case "id":
			job.rawID = value
		case "type":
			kind = value
		case "queue":
			if queue, ok := stringIn(value); ok {
				job.Queue = queue
			}
		case "attempt":
			if attempt, ok := integerIn(value); ok && attempt >= 0 && attempt <= math.MaxInt32 {
				job.Attempt = int(attempt)
			}
		case "max_attempts":
			job.maxAttempts, _ = integerIn(value)
		case "args":
			if value[0] == '[' {
				job.rawArgs = value
			}
		case "meta":
			if value[0] == '{' {
				_ = decode(value, &job.Meta)
			}
		case "timeout":
			timeout = value
		case "timeout_ms":
			timeoutMS = value
		}
	})
	if err != nil {
		return nil, err
	}
	var ok bool
	if job.ID, ok = stringIn(job.rawID); !ok {
		return nil, fmt.Errorf("the id of a job is no string")
	}
	if job.Type, ok = stringIn(kind); !ok {
		return job, errNoType
	}
	if err := decode(job.rawArgs, &job.Args); err != nil {
		return nil, err
	}
	if job.Meta == nil {
		job.Meta = map[string]any{}
	}
	limit, isLimited := durationIn(timeoutMS, time.Millisecond)
	if !isLimited {
		limit, isLimited = durationIn(timeout, time.Second)
	}
	job.deadline, job.hasDeadline = received.Add(limit), isLimited
	if !isLimited {
		job.deadline = time.Time{}
	}
	if name, ok := job.Meta["log_level"].(string); ok {
		if level, err := ParseLevel(name); err == nil {
			job.logLevel = &level
		}
	}
	job.resume.load(checkpoint)
	return job, nil
}

var errNoType = fmt.Errorf("the job has no type")

// hasMoreAttempts is true if the backend tries the job again, false if it does not or if that is unknown.
func (j *Job) hasMoreAttempts() bool {
	return j.Attempt >= 0 && int64(j.Attempt) < j.maxAttempts
}

// Context is the handler's context.
func (j *Job) Context() context.Context { return j.ctx }

// Raw is the envelope exactly as the backend sent it. Do not change it.
func (j *Job) Raw() json.RawMessage { return j.raw }

// Envelope is all that the backend sent. Numbers are json.Number.
func (j *Job) Envelope() map[string]any {
	envelope := map[string]any{}
	_ = decode(j.raw, &envelope)
	return envelope
}

// MetaNumber is a number of the metadata; 0 if it is not there, or no number.
func (j *Job) MetaNumber(name string) float64 {
	number, _ := j.Meta[name].(json.Number)
	value, _ := number.Float64()
	return value
}

// Deadline is when the job's timeout will be over, and ojs-init cancels it; false if it has none.
func (j *Job) Deadline() (time.Time, bool) { return j.deadline, j.hasDeadline }

// CancelReason is why the job is cancelled: shutdown, timeout, cancelled or lost; "" as long as it is not.
func (j *Job) CancelReason() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.reason
}

// Err is a *Cancelled once the job is cancelled, nil before. A handler that returns it gets the right answer for it.
func (j *Job) Err() error {
	if reason := j.CancelReason(); reason != "" {
		return &Cancelled{Reason: reason}
	}
	return nil
}

// Stopping is closed when the worker begins to be shut down. The job may go on until it is cancelled.
func (j *Job) Stopping() <-chan struct{} { return j.session.stopping }

// Remaining is the time until the stop phase, in which what is left is cancelled; false while nothing shuts down.
func (j *Job) Remaining() (time.Duration, bool) { return j.session.remaining() }

// LastCheckpoint stores in `into` what an earlier attempt saved with Checkpoint; false if there is nothing.
func (j *Job) LastCheckpoint(into any) (bool, error) {
	state := j.resume.userState()
	if isNull(state) {
		return false, nil
	}
	return true, decode(state, into)
}

// Heartbeat tells the backend now that this job is alive. ojs-init does that by itself at its interval.
func (j *Job) Heartbeat() error {
	return j.session.tell(j, &j.waitingHeartbeat, frame("heartbeat", j.rawID))
}

// Progress says how far the job is, from 0 to 1, in words if you like, with data that is JSON or nil. Send as often as
// you like: it waits for nothing, at most one a second reaches the backend, and the newest wins.
func (j *Job) Progress(progress float64, message string, data any) error {
	if math.IsNaN(progress) {
		return fmt.Errorf("progress is a number from 0 to 1, not %v", progress)
	}
	progress = math.Max(0, math.Min(1, progress))
	fields := []field{{"progress", strconv.AppendFloat(nil, progress, 'g', -1, 64)}}
	if message != "" {
		fields = append(fields, field{"message", quoted(clean(message, maxMessageChars))})
	}
	if data != nil {
		text, err := encode(data, maxDepth-1)
		if err != nil {
			return fmt.Errorf("the data of a progress is not JSON: %w", err)
		}
		fields = append(fields, field{"data", text})
	}
	return j.session.tell(j, &j.waitingProgress, frame("progress", j.rawID, fields...))
}

// Checkpoint saves where the next attempt shall go on; it gets it by LastCheckpoint. Once this returns nil, ojs-init
// has it and delivers it to the backend, even if this process crashes the next moment. While ojs-init does not read it
// waits, at most twice the 10 s of ErrStalled.
func (j *Job) Checkpoint(state any) error {
	text, err := encode(state, maxDepth-1)
	if err != nil {
		return fmt.Errorf("the state of a checkpoint is not JSON: %w", err)
	}
	return j.resume.setUserState(j, text)
}

// queueCheckpoint gives what waits until it is written.
func (j *Job) queueCheckpoint(state []byte) (wait func() error, err error) {
	return j.session.queueCheckpoint(j, frame("checkpoint", j.rawID, field{"state", state}))
}

// setCancelled is true the first time.
func (j *Job) setCancelled(reason string) bool {
	j.mu.Lock()
	isFirst := j.reason == ""
	if isFirst {
		j.reason = reason
	}
	j.mu.Unlock()
	if isFirst {
		j.cancel()
	}
	return isFirst
}

// String is the job's id and type.
func (j *Job) String() string { return fmt.Sprintf("job %s (%s)", j.ID, j.Type) }
