package ojsworker

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
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
	// ended is what ended the handler between two rows or steps; its job is given back even if that was swallowed.
	ended error
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
			r.isDirty = r.isUsed
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

// Steps

// stepTimes is how long each step took last in this process, by job type and name.
var stepTimes = struct {
	sync.Mutex
	took map[string]time.Duration
}{took: map[string]time.Duration{}}

// Step runs a part of the job once: its result is a checkpoint before the next one begins, and an attempt that comes
// later gets it without running the part again. The result is small and JSON (an id, a path), None for none; it is
// given as a later attempt would get it.
//
// Steps of a job have names of their own and come in the same order in each attempt; where they changed the error is a
// *Discard of the type StepsChanged. While the worker is being shut down, a step that would not end in time is not
// begun: the error is then a *Release, with which the handler has to end. At most 64 KiB of JSON are kept for a job,
// else the error is a *Discard of the type CheckpointTooLarge.
//
//	path, err := ojsworker.Step(job, "resize", func() (string, error) { return resize(picture) })
//	if err != nil {
//		return nil, err
//	}
func Step[Result any](job *Job, name string, body func() (Result, error)) (Result, error) {
	var result Result
	kept, isFinished, err := job.resume.beginStep(job, name)
	if err != nil {
		return result, err
	}
	if !isFinished {
		if kept, err = runStep(job, name, body); err != nil {
			return result, err
		}
	}
	if isNull(kept) {
		return result, nil
	}
	if err := decode(kept, &result); err != nil {
		return result, &Discard{Type: "StepsChanged", Cause: err, Message: fmt.Sprintf(
			"the result of step %s %s: an earlier attempt has saved another type", name, withoutValue(err, &result))}
	}
	return result, nil
}

func runStep[Result any](job *Job, name string, body func() (Result, error)) (json.RawMessage, error) {
	r := &job.resume
	began := time.Now()
	defer func() {
		r.mu.Lock()
		r.current = ""
		r.mu.Unlock()
		rememberStep(job.Type, name, time.Since(began))
	}()
	result, err := body()
	if err != nil {
		return nil, err
	}
	text := json.RawMessage("null")
	if any(result) != any(None{}) {
		if text, err = encode(result, maxDepth-5); err != nil {
			return nil, invalidResult("of step " + name + ": " + messageFrom(err))
		}
	}
	r.mu.Lock()
	r.steps = append(r.steps, savedStep{name, text})
	delete(r.cursors, name)
	r.isDirty = true
	r.mu.Unlock()
	return text, r.save(job)
}

// beginStep gives the result of a step that an earlier attempt has finished.
func (r *resume) beginStep(job *Job, name string) (result json.RawMessage, isFinished bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case name == "":
		return nil, false, misuse("a step has a name that is not empty")
	case r.current != "":
		return nil, false, misuse("step %s begins within step %s: steps come one after the other", name, r.current)
	}
	if r.hasBegun(name) {
		return nil, false, misuse("there are two steps %s in this job: each has a name of its own", name)
	}
	r.isUsed = true
	r.begun = append(r.begun, name)
	if at := len(r.begun) - 1; at < r.known {
		if r.steps[at].name != name {
			return nil, false, r.changed()
		}
		return r.steps[at].result, true, nil
	}
	// A step in which an earlier attempt stopped has to come before any new one.
	for open := range r.cursors {
		if open != "" && !r.hasBegun(open) {
			return nil, false, r.changed()
		}
	}
	if err := r.mayBegin(job, usualTime(job.Type, name)); err != nil {
		return nil, false, err
	}
	r.current = name
	return nil, false, nil
}

func (r *resume) hasBegun(name string) bool {
	for _, begun := range r.begun {
		if begun == name {
			return true
		}
	}
	return false
}

// changed names both orders; with the lock held.
func (r *resume) changed() error {
	var before, open []string
	for _, step := range r.steps[:r.known] {
		before = append(before, step.name)
	}
	for name := range r.cursors {
		if name != "" {
			open = append(open, name)
		}
	}
	sort.Strings(open)
	return &Discard{Type: "StepsChanged", Message: clean(fmt.Sprintf("the steps of this job have changed: an earlier "+
		"attempt had %s; this one has %s", strings.Join(append(before, open...), ", "), strings.Join(r.begun, ", ")), 2000)}
}

func misuse(format string, values ...any) error {
	return &Discard{Message: fmt.Sprintf(format, values...), Type: "WrongUse"}
}

func invalidResult(why string) error {
	return &Discard{Message: "the handler's result is not JSON: " + why, Type: "InvalidResult"}
}

func usualTime(kind, name string) time.Duration {
	stepTimes.Lock()
	defer stepTimes.Unlock()
	return stepTimes.took[kind+"\n"+name]
}

func rememberStep(kind, name string, took time.Duration) {
	stepTimes.Lock()
	defer stepTimes.Unlock()
	key := kind + "\n" + name
	if _, isKnown := stepTimes.took[key]; !isKnown && len(stepTimes.took) >= rememberedSteps {
		for other := range stepTimes.took {
			delete(stepTimes.took, other)
			break
		}
	}
	stepTimes.took[key] = took
}

// mayBegin ends the handler, by a *Release, when what comes next would be cut off; with the lock held.
func (r *resume) mayBegin(job *Job, usual time.Duration) error {
	switch reason := job.CancelReason(); reason {
	case "":
		left, isKnown := job.Remaining()
		notice := usual + usual/2
		if notice < leastNotice {
			notice = leastNotice
		}
		if !isKnown || left >= notice {
			return nil
		}
		r.ended = &Release{Reason: resumesReason}
	case "timeout", "cancelled", "lost":
		r.ended = &Cancelled{Reason: reason}
	default: // shutdown, and what a later version has for it
		r.ended = &Release{Reason: resumesReason}
	}
	return r.ended
}

// endedBy is what ended the handler between two rows or steps; nil if nothing did.
func (r *resume) endedBy() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}
