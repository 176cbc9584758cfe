package ojsworker

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

const (
	resumeVersion = "1"
	// maxResumeBytes is the most JSON that a resumable job keeps.
	maxResumeBytes = 64 * 1024
	// savePositionEvery is the least time from one saved position to the next.
	savePositionEvery = 5 * time.Second
	// leastNotice is the time before the end of a shutdown in which nothing new is begun, at least.
	leastNotice     = 250 * time.Millisecond
	rememberedRows  = 10
	rememberedSteps = 1000
	resumesReason   = "resumes at its checkpoint"
)

// resume is what of a job outlives an attempt: its finished steps, the positions of its loops, and the program's own
// state. It is saved in the same form by the clients of all languages.
type resume struct {
	mu      sync.Mutex
	steps   []savedStep
	cursors map[string]json.RawMessage
	user    json.RawMessage
	// userLoaded is what an earlier attempt saved.
	userLoaded json.RawMessage
	// known is how many of the steps an earlier attempt has finished.
	known   int
	begun   []string
	loops   map[string]bool
	current string
	// isUsed: checkpoints have to have our form.
	isUsed  bool
	isDirty bool
	savedAt time.Time
	// ended is what ended the steps and rows of the handler, in that step; the job ends by it even if that was swallowed.
	ended   error
	endedIn string
	// failed is the step that failed: no other one comes after it.
	failed *failedStep
	marks  map[int]mark
}

type failedStep struct {
	name string
	err  error
}

// mark is where the steps and loops were when a middleware called what is inside of it.
type mark struct {
	begun   int
	loops   map[string]bool
	current string
	failed  *failedStep
}

type savedStep struct {
	name   string
	result json.RawMessage
}

// MarshalJSON is [name, result].
func (s savedStep) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{s.name, s.result})
}

// load takes what came with the job; anything but our form is the program's own.
func (r *resume) load(checkpoint json.RawMessage) {
	r.savedAt = time.Now()
	r.cursors, r.loops = map[string]json.RawMessage{}, map[string]bool{}
	r.user, r.userLoaded = checkpoint, checkpoint
	if len(checkpoint) == 0 || checkpoint[0] != '{' {
		return
	}
	var saved struct {
		Version json.RawMessage            `json:"ojs_resume"`
		Steps   [][]json.RawMessage        `json:"steps"`
		Cursors map[string]json.RawMessage `json:"cursors"`
		State   json.RawMessage            `json:"state"`
	}
	if json.Unmarshal(checkpoint, &saved) != nil || string(saved.Version) != resumeVersion || saved.Steps == nil ||
		saved.Cursors == nil {
		return
	}
	steps := make([]savedStep, 0, len(saved.Steps))
	for _, pair := range saved.Steps {
		if len(pair) != 2 {
			return
		}
		name, ok := stringIn(pair[0])
		if !ok {
			return
		}
		steps = append(steps, savedStep{name, pair[1]})
	}
	r.steps, r.known, r.cursors, r.isUsed = steps, len(steps), saved.Cursors, true
	r.user, r.userLoaded = saved.State, saved.State
}

func (r *resume) userState() json.RawMessage { return r.userLoaded }

// setUserState saves what the program itself keeps.
func (r *resume) setUserState(job *Job, state json.RawMessage) error {
	r.mu.Lock()
	before := r.user
	r.user = state
	wait, err := r.queue(job)
	if err != nil {
		r.user = before
	}
	r.mu.Unlock()
	if err != nil {
		return err
	}
	return wait()
}

// queue queues the checkpoint; with the lock held, so that no older one of another goroutine comes behind it.
func (r *resume) queue(job *Job) (wait func() error, err error) {
	text := []byte(r.user)
	if r.isUsed {
		if text, err = r.form(); err != nil {
			return nil, err
		}
	}
	isWritten, err := job.queueCheckpoint(text)
	if err != nil {
		return nil, err
	}
	r.isDirty, r.savedAt = false, time.Now()
	return func() error {
		err := isWritten()
		if err != nil {
			// What is in it is still to be saved, at the latest before the job ends.
			r.mu.Lock()
			r.isDirty = true
			r.mu.Unlock()
		}
		return err
	}, nil
}

// form is the checkpoint; with the lock held.
func (r *resume) form() ([]byte, error) {
	user := r.user
	if len(user) == 0 {
		user = json.RawMessage("null")
	}
	steps := r.steps
	if steps == nil {
		steps = []savedStep{}
	}
	form := struct {
		Version json.RawMessage            `json:"ojs_resume"`
		Steps   []savedStep                `json:"steps"`
		Cursors map[string]json.RawMessage `json:"cursors"`
		State   json.RawMessage            `json:"state"`
	}{json.RawMessage(resumeVersion), steps, r.cursors, user}
	text, err := encode(form, maxDepth-1)
	if err != nil {
		return nil, invalidResult("of a step or a position: " + messageFrom(err))
	}
	if len(text) > maxResumeBytes {
		return nil, &Discard{Type: "CheckpointTooLarge", Message: fmt.Sprintf("the job's steps, positions and state have "+
			"%d bytes of JSON together, at most %d are kept: let steps return ids or paths, not contents",
			len(text), maxResumeBytes)}
	}
	return text, nil
}

func (r *resume) save(job *Job) error {
	r.mu.Lock()
	wait, err := r.queue(job)
	r.mu.Unlock()
	if err != nil {
		return err
	}
	return wait()
}

// saveBeforeEnd is for an answer after which the job may come again. It waits for nothing: what is queued goes out before
// the answer, however long ojs-init does not read.
func (r *resume) saveBeforeEnd(job *Job) {
	r.mu.Lock()
	var err error
	if r.isDirty {
		_, err = r.queue(job)
	}
	r.mu.Unlock()
	if err != nil {
		job.session.log.of(job).Error("its position was not saved: " + messageFrom(err))
	}
}
