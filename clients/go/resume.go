package ojsworker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	resumeVersion = 1
	// maxResumeBytes is the most JSON that the steps, cursors and state of a job may have
	// together.
	maxResumeBytes = 64 * 1024
	// saveCursorEvery is the least time between two saved positions of a loop.
	saveCursorEvery = 5 * time.Second
	// leastNotice is the time before the end of a shutdown in which no row and no step begins.
	leastNotice = 250 * time.Millisecond
	// rememberedRows is how many of the last rows count for the time that a row takes.
	rememberedRows = 10
)

// stepTimes has how long each step took last in this process. Its key is the job type and the
// place of the step, because a program may make any number of names.
var stepTimes sync.Map

// resume is what outlives an attempt of a job, and what this attempt has done of it.
type resume struct {
	mu    sync.Mutex
	saved position
	// loaded is the state that an earlier attempt saved.
	loaded json.RawMessage
	// before is the number of steps that earlier attempts finished.
	before int
	// begun has the steps of this attempt in their order.
	begun []string
	// current is the step that runs; "" outside of steps.
	current string
	loops   map[string]bool
	// isUsed is true from the first step or loop on: then a checkpoint is a position, else it is
	// the state alone.
	isUsed, isDirty bool
	savedAt         time.Time
}

// position is a checkpoint in the form that the clients of all languages share.
type position struct {
	Version int                        `json:"ojs_resume"`
	Steps   []savedStep                `json:"steps"`
	Cursors map[string]json.RawMessage `json:"cursors"`
	State   json.RawMessage            `json:"state"`
}

// savedStep has the name and the result of a finished step.
type savedStep [2]json.RawMessage

func (s savedStep) name() (name string) {
	_ = json.Unmarshal(s[0], &name)
	return name
}

func (r *resume) load(checkpoint json.RawMessage) {
	r.savedAt, r.loops = time.Now(), map[string]bool{}
	saved := &r.saved
	r.isUsed = !isNull(checkpoint) && json.Unmarshal(checkpoint, saved) == nil && saved.Version == resumeVersion && saved.Steps != nil && saved.Cursors != nil
	if !r.isUsed {
		*saved = position{resumeVersion, []savedStep{}, map[string]json.RawMessage{}, checkpoint}
	}
	r.loaded, r.before = saved.State, len(saved.Steps)
}

// save sends the checkpoint. It is called with the lock, so that an older one of another goroutine
// cannot follow.
func (r *resume) save(job *Job) error {
	r.isDirty, r.savedAt = false, time.Now()
	text := r.saved.State
	if r.isUsed {
		if text, _ = encode(r.saved); len(text) > maxResumeBytes {
			return discard("CheckpointTooLarge", "", "the steps, positions and state of the job have %d bytes of JSON, at most %d are "+
				"kept: let steps return ids or paths, not contents", len(text), maxResumeBytes)
		}
	}
	return job.send(&frame{Type: "checkpoint", State: text}, false)
}

// saveBeforeEnd is for answers after which the job may come again.
func (r *resume) saveBeforeEnd(job *Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The checkpoint of a lost job belongs to the worker that has the job now.
	if r.isDirty && job.CancelReason() != "lost" {
		if err := r.save(job); err != nil {
			job.session.log.ErrorContext(job.ctx, "the position of the job is not saved: "+err.Error())
		}
	}
}

// mayBegin returns the error that ends the handler if what comes next would be cut off. usual is
// the time that it takes.
func mayBegin(job *Job, usual time.Duration) error {
	left, isKnown := job.Remaining()
	if isKnown && left < max(usual+usual/2, leastNotice) && job.Err() == nil {
		return &Release{Reason: "resumes at its checkpoint"}
	}
	return job.Err()
}

func discard(class, code, format string, values ...any) error {
	return &Discard{Type: class, Code: code, Message: fmt.Sprintf(format, values...)}
}

// Step runs a part of the job once: its result is saved, and a later attempt gets it without
// running the part again. The result is small and JSON (an id, a path); None if there is none.
//
// The steps of a job have different names and come in the same order in each attempt. Return every
// error of Step from the handler: a *Release ends the handler in time before a shutdown, and a
// *Discard says that the steps have changed (StepsChanged) or are too large (CheckpointTooLarge,
// more than 64 KiB of JSON for the job).
//
//	path, err := ojsworker.Step(job, "resize", func() (string, error) { return resize(picture) })
//	if err != nil {
//		return nil, err
//	}
func Step[Result any](job *Job, name string, body func() (Result, error)) (result Result, err error) {
	r := &job.resume
	finished, err := r.beginStep(name)
	switch {
	case err != nil:
		return result, err
	case finished != nil && decode(finished[1], &result) != nil:
		return result, discard("StepsChanged", "", "the saved result of step %s does not fit into %T", name, result)
	case finished != nil:
		return result, nil
	}
	key, began := fmt.Sprint(len(r.begun), " ", job.Type), time.Now()
	usual, _ := stepTimes.LoadOrStore(key, time.Duration(0))
	if err = mayBegin(job, usual.(time.Duration)); err == nil {
		result, err = body()
		stepTimes.Store(key, time.Since(began))
	}
	return result, r.endStep(job, name, result, err)
}

// beginStep returns the step if an earlier attempt has finished it.
func (r *resume) beginStep(name string) (*savedStep, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name == "" || r.current != "" || slices.Contains(r.begun, name) {
		return nil, discard("WrongUse", "", "step %q begins within step %q or for the second time: steps have names of their own and "+
			"come one after the other", name, r.current)
	}
	at := len(r.begun)
	r.begun, r.isUsed = append(r.begun, name), true
	if at < r.before && r.saved.Steps[at].name() == name {
		return &r.saved.Steps[at], nil
	}
	isChanged := at < r.before
	var before []string
	for _, step := range r.saved.Steps {
		before = append(before, step.name())
	}
	// A step in which an earlier attempt stopped comes before any new one.
	for open := range r.saved.Cursors {
		if open != "" && !slices.Contains(r.begun, open) {
			before, isChanged = append(before, open), true
		}
	}
	if isChanged {
		return nil, discard("StepsChanged", "", "an earlier attempt had the steps %s; this one has %s", strings.Join(before, ", "),
			strings.Join(r.begun, ", "))
	}
	r.current = name
	return nil, nil
}

// endStep saves the result of a step, unless it ended with an error.
func (r *resume) endStep(job *Job, name string, result any, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = ""
	if err != nil {
		return err
	}
	text, err := encode(result)
	if err != nil {
		return discard("WrongUse", "", "the result of step %s is no JSON, but a %T", name, result)
	}
	quoted, _ := encode(name)
	r.saved.Steps = append(r.saved.Steps, savedStep{quoted, text})
	delete(r.saved.Cursors, name)
	return r.save(job)
}

// Iterate calls each for every row. A later attempt goes on behind the last finished row: its
// index is saved at most every 5 s, and always before the job fails or is given back. The rows
// must have the same order in each attempt; where they may not, use IterateKeyed.
//
// A row is finished when each returns nil; its error ends the loop. Return every error of Iterate
// from the handler: a *Release ends it in time before a shutdown. A job has one loop outside of
// steps, and one in each Step.
func Iterate[Row any](job *Job, rows []Row, each func(row Row) error) error {
	open := func(after *int) (func() (int, bool, error), error) {
		at := -1
		if after != nil {
			at = max(*after, -1)
		}
		return func() (int, bool, error) {
			at++
			return at, at < len(rows), nil
		}, nil
	}
	return IterateFrom(job, open, func(at int) int { return at }, func(at int) error { return each(rows[at]) })
}

// IterateKeyed is Iterate with a key of each row as position; a key is any JSON but null. It skips
// the rows up to the one with the saved key. If that row does not come any more, the error is a
// *Discard of the type StepsChanged.
func IterateKeyed[Row, Key any](job *Job, rows []Row, key func(row Row) Key, each func(row Row) error) error {
	at := 0
	open := func(after *Key) (func() (Row, bool, error), error) {
		if after != nil {
			last, _ := encode(after)
			at = 1 + slices.IndexFunc(rows, func(row Row) bool {
				text, _ := encode(key(row))
				return bytes.Equal(text, last)
			})
			if at == 0 {
				return nil, discard("StepsChanged", "", "the row that an earlier attempt finished last does not come any more")
			}
		}
		return func() (row Row, ok bool, err error) {
			if ok = at < len(rows); ok {
				row = rows[at]
				at++
			}
			return row, ok, nil
		}, nil
	}
	return IterateFrom(job, open, key, each)
}

// IterateFrom is IterateKeyed for rows that are not all in memory: open gets the key of the last
// finished row, nil in the first attempt, and returns a function that returns the rows behind it
// one by one, until ok is false.
func IterateFrom[Row, Key any](job *Job, open func(after *Key) (next func() (row Row, ok bool, err error), err error),
	key func(row Row) Key, each func(row Row) error) error {
	after, step, err := beginLoop[Key](job)
	if err != nil {
		return err
	}
	next, err := open(after)
	if err != nil {
		return err
	}
	var took [rememberedRows]time.Duration
	for done := 0; ; done++ {
		row, ok, err := next()
		if err != nil || !ok {
			return err
		}
		if err := mayBegin(job, slices.Max(took[:])); err != nil {
			return err
		}
		began := time.Now()
		if err := each(row); err != nil {
			return err
		}
		took[done%rememberedRows] = time.Since(began)
		if err := job.resume.endRow(job, step, key(row)); err != nil {
			return err
		}
	}
}

// beginLoop returns the saved key, nil if there is none, and the step of the loop.
func beginLoop[Key any](job *Job) (after *Key, step string, err error) {
	r := &job.resume
	r.mu.Lock()
	defer r.mu.Unlock()
	step = r.current
	if r.loops[step] {
		return nil, step, discard("WrongUse", "", "there are two loops over rows in one place: put each into a step of its own")
	}
	r.loops[step], r.isUsed = true, true
	if start := r.saved.Cursors[step]; !isNull(start) {
		after = new(Key)
		if decode(wholeNumber(start), after) != nil {
			return nil, step, discard("StepsChanged", "", "the saved position of the rows does not fit into %T", *after)
		}
	}
	return after, step, nil
}

// endRow remembers the key of the last finished row, and saves it if the last save was long ago.
func (r *resume) endRow(job *Job, step string, key any) error {
	text, err := encode(key)
	if err != nil || isNull(text) {
		return discard("WrongUse", "", "the key of a row is null or no JSON, but a %T", key)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saved.Cursors[step], r.isDirty = text, true
	if time.Since(r.savedAt) < saveCursorEvery {
		return nil
	}
	return r.save(job)
}

// wholeNumber spells 10.0 and 1e1 as 10. A backend may have changed the spelling, and
// encoding/json reads an int only from digits.
func wholeNumber(text json.RawMessage) json.RawMessage {
	const exact = 1 << 53 // from here on a float64 does not have every integer
	number, err := strconv.ParseFloat(string(text), 64)
	if err != nil || number != math.Trunc(number) || math.Abs(number) >= exact {
		return text
	}
	return strconv.AppendFloat(nil, number, 'f', 0, 64)
}
