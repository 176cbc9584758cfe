package ojsworker

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"
)

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
// begun: the error is then a *Release, with which the handler has to end. A step that fails is the last one, but for the
// same one again: others return its error. At most 64 KiB of JSON are kept for a job,
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
		kept, err = runStep(job, name, body)
	} else {
		err = job.resume.saveAgain(job, name)
	}
	if err != nil {
		return result, err
	}
	if isNull(kept) {
		return result, nil
	}
	if err := decode(kept, &result); err != nil {
		return result, job.resume.change("", &Discard{Type: "StepsChanged", Cause: err, Message: fmt.Sprintf(
			"the result of step %s %s: an earlier attempt has saved another type", name, withoutValue(err, &result))})
	}
	return result, nil
}

func runStep[Result any](job *Job, name string, body func() (Result, error)) (text json.RawMessage, err error) {
	r := &job.resume
	began := time.Now()
	hasReturned := false
	defer func() {
		if !hasReturned {
			err = fmt.Errorf("step %s has panicked, and no other one comes after it", name)
		}
		r.mu.Lock()
		r.current = ""
		if err != nil {
			r.failed = &failedStep{name, err}
		}
		r.mu.Unlock()
		rememberStep(job.Type, name, time.Since(began))
	}()
	result, err := body()
	hasReturned = true
	if err == nil {
		err = r.endedIt(name)
	}
	if err != nil {
		return nil, err
	}
	text = json.RawMessage("null")
	if any(result) != any(None{}) {
		if text, err = encode(result, maxDepth-5); err != nil {
			return nil, invalidResult("of step " + name + ": " + messageFrom(err))
		}
	}
	return text, r.finishStep(job, name, text)
}

// endedIt is what has ended the loop in this step: its other rows are not done, whatever its body has made of that.
func (r *resume) endedIt(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.endedIn != name {
		return nil
	}
	return r.ended
}

// finishStep keeps the result and saves it. A step that cannot be kept is not finished: its rows keep their position.
func (r *resume) finishStep(job *Job, name string, text json.RawMessage) error {
	r.mu.Lock()
	position, hasPosition := r.cursors[name]
	r.steps = append(r.steps, savedStep{name, text})
	delete(r.cursors, name)
	r.isDirty = true
	wait, err := r.queue(job)
	if err != nil {
		r.steps = r.steps[:len(r.steps)-1]
		if hasPosition {
			r.cursors[name] = position
		}
	} else {
		// Whoever calls it again after a failed saving gets its result.
		r.known = len(r.steps)
	}
	r.mu.Unlock()
	if err != nil {
		return err
	}
	return wait()
}

// saveAgain saves a step whose saving has failed.
func (r *resume) saveAgain(job *Job, name string) error {
	r.mu.Lock()
	isSaved := r.failed == nil || r.failed.name != name
	r.mu.Unlock()
	if isSaved {
		return nil
	}
	err := r.save(job)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = nil
	if err != nil {
		r.failed = &failedStep{name, err}
	}
	return err
}

// beginStep gives the result of a step that an earlier attempt has finished.
func (r *resume) beginStep(job *Job, name string) (result json.RawMessage, isFinished bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case name == "":
		return nil, false, misuse("a step has a name that is not empty")
	case r.ended != nil:
		return nil, false, r.ended
	case r.current != "":
		return nil, false, misuse("step %s begins within step %s: steps come one after the other", name, r.current)
	case r.failed != nil && r.failed.name != name:
		return nil, false, r.failed.err
	case r.failed != nil:
		// Once more; its loop, too.
		r.begun = r.begun[:len(r.begun)-1]
		delete(r.loops, name)
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
	r.failed = nil
	// A step in which an earlier attempt stopped has to come before any new one.
	for open := range r.cursors {
		if open != "" && !r.hasBegun(open) {
			return nil, false, r.changed()
		}
	}
	if err := r.mayBegin(job, name, usualTime(job.Type, name)); err != nil {
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
	return r.endBy("", &Discard{Type: "StepsChanged", Message: clean(fmt.Sprintf("the steps of this job have changed: an earlier "+
		"attempt had %s; this one has %s", strings.Join(append(before, open...), ", "), strings.Join(r.begun, ", ")), 2000)})
}

// change ends the steps and rows by an error that says what of them has changed.
func (r *resume) change(step string, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.endBy(step, err)
}

// endBy ends them, in that step, by this error or the one that has done so already; with the lock held.
func (r *resume) endBy(step string, err error) error {
	if r.ended == nil {
		r.ended = err
	}
	r.endedIn = step
	return r.ended
}

// enter is called before what is inside of a middleware is. When that is called again, its steps and loops come once
// more: those that are finished by now are known.
func (r *resume) enter(layer int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, isAgain := r.marks[layer]
	if !isAgain {
		before = mark{len(r.begun), map[string]bool{}, r.current, r.failed}
		for step := range r.loops {
			before.loops[step] = true
		}
		if r.marks == nil {
			r.marks = map[int]mark{}
		}
		r.marks[layer] = before
		return
	}
	r.begun, r.current, r.failed, r.known = r.begun[:before.begun], before.current, before.failed, len(r.steps)
	r.loops = map[string]bool{}
	for step := range before.loops {
		r.loops[step] = true
	}
	for inner := range r.marks {
		if inner > layer {
			delete(r.marks, inner)
		}
	}
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

// mayBegin ends the handler, by a *Release, when what comes next in this step would be cut off; with the lock held.
// A handler that swallowed that may go on, but not with something shorter: what comes before it is not done.
func (r *resume) mayBegin(job *Job, step string, usual time.Duration) error {
	if r.ended != nil {
		r.endedIn = step
		return r.ended
	}
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
		return r.endBy(step, &Release{Reason: resumesReason})
	case "timeout", "cancelled", "lost":
		return r.endBy(step, &Cancelled{Reason: reason})
	default: // shutdown, and what a later version has for it
		return r.endBy(step, &Release{Reason: resumesReason})
	}
}

// endedBy is what ended the steps and rows of the handler; nil if nothing did.
func (r *resume) endedBy() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}
