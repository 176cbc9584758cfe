package ojsworker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

func (s *session) onJob(raw, checkpoint json.RawMessage) error {
	if raw == nil {
		return errors.New("it has no job")
	}
	job, err := newJob(raw, checkpoint, time.Now())
	if job == nil {
		return err
	}
	if mayTake, err := s.mayTake(job.ID, job.rawID); !mayTake {
		return err
	}
	if errors.Is(err, errNoType) {
		// Retryable as for each type without a handler: only a broken envelope fails for good.
		s.refuse(job.ID, job.rawID, "handler_not_found", "this worker has no handler for a job without a type", true)
		return nil
	}
	if err != nil {
		s.refuse(job.ID, job.rawID, "invalid_job", err.Error(), false)
		return nil
	}
	job.handler, job.origin = s.worker.handlerFor(job.Type)
	if job.handler == nil {
		message := "this worker has no handler for " + clean(job.Type, 200)
		s.refuse(job.ID, job.rawID, "handler_not_found", message, true)
		return nil
	}
	job.session = s
	ctx, cancel := context.WithCancel(context.Background())
	job.ctx, job.cancel = jobContext{ctx, s.values, job}, cancel
	s.mu.Lock()
	s.held[job.ID] = job
	delete(s.answers, job.ID)
	if !s.cutOffAt.IsZero() {
		// The signal came meanwhile, and did not find it.
		s.cancelJob(job, "shutdown")
	}
	s.unlock()
	go s.process(job)
	return nil
}

// mayTake says whether a job that came is to be answered or begun at all. It comes before all else about the job, also
// for one that cannot be read: nobody answers for a handler that still runs.
func (s *session) mayTake(id string, rawID []byte) (bool, error) {
	s.mu.Lock()
	isEnding := s.isStopping || s.state == "terminate"
	held := s.held[id]
	s.mu.Unlock()
	if held != nil {
		s.log.of(held).Warn("the job came again while its handler runs, which goes on")
		return false, nil
	}
	if isEnding {
		// On its way when we said that we take no more.
		return false, s.out.send(frame("release", rawID, field{"reason", quoted("the worker is ending")}), false)
	}
	return true, nil
}

func (s *session) refuse(id string, rawID []byte, code, message string, retryable bool) {
	s.log.Error(fmt.Sprintf("job %s: %s", clean(id, 200), message))
	_ = s.out.send(failFrame(rawID, &failure{Code: code, Message: message, Retryable: retryable}), false)
}

func (s *session) onCancel(fields map[string]json.RawMessage) error {
	id, ok := stringIn(fields["job_id"])
	reason, hasReason := stringIn(fields["reason"])
	if !ok || !hasReason {
		return errors.New("it names no job, or no reason")
	}
	s.mu.Lock()
	defer s.unlock()
	if job := s.held[id]; job != nil {
		s.cancelJob(job, clean(reason, 200))
	}
	return nil
}

// cancelJob is called with the lock held.
func (s *session) cancelJob(job *Job, reason string) {
	if job.setCancelled(reason) {
		s.note(job, LevelInfo, "the job is cancelled: "+reason)
	}
}

func (s *session) onOk(fields map[string]json.RawMessage) {
	id, _ := stringIn(fields["job_id"])
	about, _ := stringIn(fields["for"])
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answers[id] == about {
		delete(s.answers, id)
	}
}

func (s *session) onError(fields map[string]json.RawMessage) {
	code, _ := stringIn(fields["code"])
	text, _ := stringIn(fields["message"])
	id, hasID := stringIn(fields["job_id"])
	text = clean(text, 1000)
	s.mu.Lock()
	defer s.unlock()
	job := s.held[id]
	answer := ""
	if hasID && job == nil {
		answer = s.answers[id]
		delete(s.answers, id)
	}
	said := fmt.Sprintf("job %s: %s: %s", clean(id, 200), clean(code, 200), text)
	switch code {
	case "lost", "not_held":
		if job == nil && answer != "ack" {
			s.note(nil, LevelDebug, said)
			return
		}
		s.note(nil, LevelWarn, said)
		if job != nil {
			s.cancelJob(job, "lost")
		}
	case "unsupported_protocol":
		s.setFatal(fmt.Errorf("%w: it does not speak version %d: %s", ErrProtocol, protocolVersion, text))
	case "not_json", "invalid_frame", "frame_too_long":
		s.note(nil, LevelError, "ojs-init refuses a frame: "+said)
		if answer == "ack" || answer == "release" {
			message := fmt.Sprintf("the handler's answer was refused: %s: %s", code, text)
			_ = s.out.send(failFrame(quoted(id), &failure{Code: "handler_error", Message: message}), false)
		}
	case "not_offered":
		if !s.said[text] && len(s.said) < 100 {
			s.said[text] = true
			s.note(nil, LevelWarn, "the backend does not offer this (said once): "+text)
		}
	case "refused":
		if answer == "ack" {
			said += " (its result; ojs-init reports it without)"
		}
		s.note(nil, LevelWarn, said)
	default:
		s.note(nil, LevelWarn, said)
	}
}

// process runs the handler. The answer is given whatever it does, and not before it has ended.
func (s *session) process(job *Job) {
	var result any
	var err error
	hasReturned := false
	s.slots <- struct{}{}
	forget := registerGoroutine(job)
	defer func() {
		if !hasReturned {
			if value := recover(); value != nil {
				err = newPanicError(value)
			} else {
				err = errors.New("the handler ended its goroutine: runtime.Goexit, t.FailNow or panic(nil)")
			}
		}
		kind, line := s.answerTo(job, result, err)
		forget()
		<-s.slots
		s.answer(job, kind, line)
	}()
	if reason := job.CancelReason(); reason != "" {
		// Even after its timeout: it was not processed.
		err = &Release{Reason: reason}
	} else {
		if s.begun != nil {
			close(s.begun)
		}
		result, err = job.handler(job.ctx, job)
	}
	hasReturned = true
}

// answer forgets the job before its answer is written: the same id may come again right after it.
func (s *session) answer(job *Job, kind string, line []byte) {
	s.mu.Lock()
	job.isOver = true
	s.out.drop(job.waitingProgress)
	delete(s.held, job.ID)
	if s.out.send(line, false) == nil {
		s.remember(job.ID, kind)
	}
	s.mu.Unlock()
	job.cancel()
	if s.isEnding.Load() {
		s.wake()
	}
}

func (s *session) remember(id, kind string) {
	if _, isKnown := s.answers[id]; !isKnown {
		s.answerOrder = append(s.answerOrder, id)
		if len(s.answerOrder) > rememberedAnswers {
			delete(s.answers, s.answerOrder[0])
			s.answerOrder = s.answerOrder[1:]
		}
	}
	s.answers[id] = kind
}

// tell queues something about a job, in place of what waits in the slot.
func (s *session) tell(job *Job, slot **outgoing, line []byte) error {
	if !s.fits(line) {
		return errTooLong(len(line), s.maxFrame)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if job.isOver {
		return fmt.Errorf("job %s: %w", job.ID, ErrAnswered)
	}
	if _, isIn := s.out.replace(*slot, line); isIn {
		return nil
	}
	item, err := s.out.put(&outgoing{data: line}, false)
	*slot = item
	return err
}

// queueCheckpoint queues a checkpoint, in place of one that still waits, and gives what waits until it is written, or why
// it is not. Whoever has to keep two of them in their order calls this with a lock, and waits without it.
func (s *session) queueCheckpoint(job *Job, line []byte) (wait func() error, err error) {
	if !s.fits(line) {
		return nil, errTooLong(len(line), s.maxFrame)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if job.isOver {
		return nil, fmt.Errorf("job %s: %w", job.ID, ErrAnswered)
	}
	item := job.waitingCheckpoint
	version, isIn := s.out.replace(item, line)
	if !isIn {
		item, err = s.out.put(&outgoing{data: line, done: make(chan struct{})}, false)
		job.waitingCheckpoint = item
		if err != nil {
			return nil, notSent(err)
		}
	}
	return func() error {
		if err := s.out.await(item, version, s.out.patience); err != nil {
			return notSent(err)
		}
		return nil
	}, nil
}

func notSent(err error) error { return fmt.Errorf("the checkpoint is not sent: %w", err) }

func errTooLong(size, limit int) error {
	return fmt.Errorf("%d bytes are more than ojs-init takes at once (%d)", size, limit)
}
