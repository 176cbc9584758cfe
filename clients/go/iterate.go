package ojsworker

import (
	"encoding/json"
	"fmt"
	"time"
)

// Iterate calls each for every row, and goes on behind the last finished one when the job comes again: the position is
// saved at most every 5 s, and always before the job is given back or fails. The position is the index, so the rows
// must come in the same order again; where they may not, use IterateKeyed.
//
// A row is finished when each returns nil; any error of each is returned at once. While the worker is being shut down, a
// row that would not end in time is not begun: the error is a *Release, with which the handler has to end. One loop may
// stand outside of steps, and one in each Step.
func Iterate[Row any](job *Job, rows []Row, each func(row Row) error) error {
	loop, err := beginLoop(job)
	if err != nil {
		return err
	}
	first := 0
	if !isNull(loop.start) {
		last, ok := integerIn(loop.start)
		if !ok || last < 0 {
			return loop.positionIsOther("an index")
		}
		if last >= int64(len(rows)) {
			last = int64(len(rows)) - 1
		}
		first = int(last) + 1
	}
	for at := first; at < len(rows); at++ {
		row := rows[at]
		if err := loop.do(at, func() error { return each(row) }); err != nil {
			return err
		}
	}
	return nil
}

// IterateKeyed is Iterate with a key of each row, which is any JSON but null, as position: rows up to and including the
// one with the saved key are skipped. If it does not come any more the error is a *Discard of the type StepsChanged.
func IterateKeyed[Row, Key any](job *Job, rows []Row, key func(row Row) Key, each func(row Row) error) error {
	loop, err := beginLoop(job)
	if err != nil {
		return err
	}
	isSkipping := !isNull(loop.start)
	sought := ""
	if isSkipping {
		sought = canonical(loop.start)
	}
	for _, row := range rows {
		row := row
		if isSkipping {
			text, err := positionOf(key(row))
			if err != nil {
				return err
			}
			isSkipping = canonical(text) != sought
			continue
		}
		if err := loop.do(key(row), func() error { return each(row) }); err != nil {
			return err
		}
	}
	if isSkipping {
		return loop.isChanged(fmt.Sprintf("the row with the key %s, the last one that an earlier attempt finished, does not "+
			"come any more", clean(string(loop.start), 100)))
	}
	return nil
}

// IterateFrom is IterateKeyed for rows that need not be in memory at once: open gets the key of the last finished row,
// nil in the first attempt, and gives a function that returns the rows behind it, one by one, until ok is false.
func IterateFrom[Row, Key any](job *Job, open func(after *Key) (next func() (row Row, ok bool, err error), err error),
	key func(row Row) Key, each func(row Row) error) error {
	loop, err := beginLoop(job)
	if err != nil {
		return err
	}
	var after *Key
	if !isNull(loop.start) {
		after = new(Key)
		if decode(loop.start, after) != nil {
			// A whole number that came back as 10.0 does not fit into an int as it is spelled.
			after = new(Key)
			if decode([]byte(canonical(loop.start)), after) != nil {
				return loop.positionIsOther(fmt.Sprintf("a %T", *after))
			}
		}
	}
	next, err := open(after)
	if err != nil {
		return err
	}
	for {
		row, ok, err := next()
		if err != nil || !ok {
			return err
		}
		if err := loop.do(key(row), func() error { return each(row) }); err != nil {
			return err
		}
	}
}

// loop is one loop over rows.
type loop struct {
	job   *Job
	step  string
	start json.RawMessage
	took  [rememberedRows]time.Duration
	done  int
}

func beginLoop(job *Job) (*loop, error) {
	r := &job.resume
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loops[r.current] {
		place := "outside of steps"
		if r.current != "" {
			place = "in step " + r.current
		}
		return nil, misuse("there are two loops over rows %s: put each into a step of its own", place)
	}
	r.loops[r.current] = true
	r.isUsed = true
	return &loop{job: job, step: r.current, start: r.cursors[r.current]}, nil
}

// do runs a row, and notes that it is finished.
func (l *loop) do(key any, body func() error) error {
	r := &l.job.resume
	r.mu.Lock()
	err := r.mayBegin(l.job, l.step, l.longest())
	r.mu.Unlock()
	if err != nil {
		return err
	}
	position, err := positionOf(key)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := body(); err != nil {
		return err
	}
	l.took[l.done%rememberedRows] = time.Since(began)
	l.done++
	r.mu.Lock()
	r.cursors[l.step] = position
	r.isDirty = true
	isTime := time.Since(r.savedAt) >= savePositionEvery
	r.mu.Unlock()
	if isTime {
		return r.save(l.job)
	}
	return nil
}

func (l *loop) longest() time.Duration {
	longest := time.Duration(0)
	for _, took := range l.took {
		if took > longest {
			longest = took
		}
	}
	return longest
}

func (l *loop) positionIsOther(wanted string) error {
	return l.isChanged(fmt.Sprintf("the rows had another kind of position in an earlier attempt: %s, which is not %s",
		clean(string(l.start), 100), wanted))
}

func (l *loop) isChanged(message string) error {
	return l.job.resume.change(l.step, &Discard{Type: "StepsChanged", Message: message})
}

func positionOf(key any) (json.RawMessage, error) {
	if index, ok := key.(int); ok {
		return json.RawMessage(fmt.Sprint(index)), nil
	}
	text, err := encode(key, maxDepth-5)
	if err != nil {
		return nil, misuse("the key of a row is not JSON: %s", messageFrom(err))
	}
	if isNull(text) {
		return nil, misuse("the key of a row is null: it cannot be told from no position")
	}
	return text, nil
}
