package unlock

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"time"

	"authgate/internal/notify"
	"authgate/limits"
)

// attempted is a job after a try. over: nothing is left to do for this process.
type attempted struct {
	job  job
	over bool
}

// take makes a job of a fill, unless there is a reason against it.
func (s *Service) take(f fill) {
	c := f.claim
	if s.cfg.Way.mailbox {
		if _, ok := mailbox(c.Target, s.cfg.MailboxDomain); !ok {
			s.skip(c, "no single plain mailbox")
			return
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), knownWithin)
	known, err := s.cfg.Known(ctx, c.Realm, c.Target)
	cancel()
	switch {
	case err != nil:
		s.drop(c, "nobody can say whether the target is known")
		return
	case !known:
		s.skip(c, "the target is not known")
		return
	}
	ctx, cancel = context.WithTimeout(context.Background(), storeWithin)
	defer cancel()
	at, sent := jobKey(c.Realm, c.Target), ledgerKey(c.Realm, c.Target)
	texts, err := s.cfg.Records.Load(ctx, at, sent)
	if err != nil {
		s.drop(c, "the store is out")
		return
	}
	now := time.Now()
	past := parseLedger(texts[1], now)
	switch {
	case texts[0] != "":
		s.skip(c, "one is under way")
		return
	case !past.room(s.cfg.PerDay, now):
		s.skip(c, "there was one lately")
		return
	case len(s.jobs) >= maxJobs:
		s.drop(c, "too many wait")
		return
	}
	j := job{
		ID: rand.Text(), Owner: s.owner, Realm: c.Realm, Policy: c.Policy, Target: c.Target,
		Window: f.window.Milliseconds(), End: now.Add(s.cfg.LinkTTL).UnixMilli(),
	}
	j.wait(now)
	was := []limits.Kept{{Key: at}, {Key: sent, Text: texts[1]}}
	if ok, err := s.cfg.Records.Swap(ctx, was, j.change(now)); err != nil {
		s.drop(c, "the store is out")
	} else if ok {
		s.jobs[at] = j
		s.start()
	}
}

// drop says that a notice that was due is not sent.
func (s *Service) drop(c Claim, why string) {
	s.cfg.Count(Dropped)
	s.skip(c, why)
}

// attempt takes a job one step on: it claims it in the store, sends, and writes down what came of it.
func (s *Service) attempt(j job) attempted {
	token := newToken()
	ticketAt, _ := ticketKey(token)
	expires := time.Now().Add(s.cfg.LinkTTL)
	text, ok, err := s.claim(&j, ticketAt, expires)
	switch {
	case err != nil: // the store is out; the next try finds out what it holds
		j.wait(time.Now().Add(notify.Backoff(1)))
		return attempted{job: j}
	case !ok:
		s.skip(Claim{j.Realm, j.Policy, j.Target}, "another process has it, or the store has lost it")
		return attempted{job: j, over: true}
	case time.Now().UnixMilli() > j.End:
		return s.giveUp(j, text, ticketAt, "its time is over")
	}
	err = s.send(j, token, expires)
	var f *notify.Failure
	switch {
	case err == nil, errors.As(err, &f) && f.Unsure && !s.cfg.Way.repeats:
		s.confirm(j)
		s.cfg.Count(Sent)
		s.cfg.Audit("unlock_sent", "gateway", slog.String("realm", j.Realm), slog.String("policy", j.Policy),
			slog.String("via", s.cfg.Way.name), slog.String("identity", j.Target))
		return attempted{job: j, over: true}
	case f != nil && f.Final:
		return s.giveUp(j, text, ticketAt, err.Error())
	case s.sending.Err() == nil:
		j.Tries++
	}
	return s.again(j, text, err.Error())
}

// claim marks a job as being sent, and keeps the ticket of its link. text is what the store then holds; ok is false if the job is
// this process's no more.
func (s *Service) claim(j *job, ticketAt string, expires time.Time) (text string, ok bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), storeWithin)
	defer cancel()
	texts, err := s.cfg.Records.Load(ctx, j.key())
	if err != nil {
		return "", false, err
	}
	kept, ok := parseJob(j.key(), texts[0])
	if !ok || kept.ID != j.ID || kept.Owner != s.owner {
		return "", false, nil
	}
	now := time.Now()
	j.Sending, j.Until = true, now.Add(lease).UnixMilli()
	changes := []limits.Change{j.change(now)}
	if s.cfg.Way.link {
		t := ticket{Claim{j.Realm, j.Policy, j.Target}, expires.UnixMilli()}
		changes = append(changes, t.change(ticketAt, s.cfg.LinkTTL))
	}
	ok, err = s.cfg.Records.Swap(ctx, []limits.Kept{{Key: j.key(), Text: texts[0]}}, changes...)
	return encode(j), ok, err
}

func (s *Service) send(j job, token string, expires time.Time) error {
	n := notice{id: j.ID, claim: Claim{j.Realm, j.Policy, j.Target}, expires: expires}
	if s.cfg.Way.mailbox {
		n.mailbox, _ = mailbox(j.Target, s.cfg.MailboxDomain)
	}
	if s.cfg.Way.link {
		base := s.cfg.Link(j.Realm)
		if base == "" {
			return &notify.Failure{Cause: "nobody says where users reach the gateway", Final: true}
		}
		n.link = strings.TrimRight(base, "/") + Path + "?token=" + token
	}
	ctx, cancel := context.WithTimeout(s.sending, sendWithin)
	defer cancel()
	return s.cfg.Way.send(ctx, n)
}

// again lets a job wait for its next try, or gives it up where that would come too late. A process that ends leaves it to others
// at once.
func (s *Service) again(j job, text, why string) attempted {
	now := time.Now()
	at := now.Add(notify.Backoff(j.Tries))
	ending := s.sending.Err() != nil
	if !ending && at.UnixMilli() > j.End {
		return s.giveUp(j, text, "", why)
	}
	j.wait(at)
	if ending {
		j.Until = now.UnixMilli()
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeWithin)
	defer cancel()
	ok, err := s.cfg.Records.Swap(ctx, []limits.Kept{{Key: j.key(), Text: text}}, j.change(now))
	return attempted{job: j, over: err == nil && !ok}
}

// giveUp forgets a job, and the ticket of a link that never left.
func (s *Service) giveUp(j job, text, ticketAt, why string) attempted {
	changes := []limits.Change{{Key: j.key()}}
	if ticketAt != "" {
		changes = append(changes, limits.Change{Key: ticketAt})
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeWithin)
	defer cancel()
	_, _ = s.cfg.Records.Swap(ctx, []limits.Kept{{Key: j.key(), Text: text}}, changes...) // else it expires
	s.cfg.Count(Failed)
	s.cfg.Log.LogAttrs(context.Background(), slog.LevelWarn, "unlock notice not sent", slog.String("via", s.cfg.Way.name),
		slog.String("cause", why), slog.String("realm", j.Realm), slog.String("policy", j.Policy), s.cfg.Names.Name("target", j.Target))
	return attempted{job: j, over: true}
}

// confirm enters a notice in the ledger, and forgets its job.
func (s *Service) confirm(j job) {
	for failures := 1; failures <= confirmTries; failures++ {
		if s.enter(j) {
			return
		}
		select {
		case <-time.After(notify.Backoff(1)):
		case <-s.closing: // no more pauses
		}
	}
	s.cfg.Log.LogAttrs(context.Background(), slog.LevelWarn, "unlock notice not entered in the store", slog.String("realm", j.Realm),
		s.cfg.Names.Name("target", j.Target))
}

// confirmTries times storeWithin and a second each are well within a lease.
const confirmTries = 5

func (s *Service) enter(j job) bool {
	ctx, cancel := context.WithTimeout(context.Background(), storeWithin)
	defer cancel()
	sent := ledgerKey(j.Realm, j.Target)
	texts, err := s.cfg.Records.Load(ctx, j.key(), sent)
	if err != nil {
		return false
	}
	now, window := time.Now(), time.Duration(j.Window)*time.Millisecond
	past := parseLedger(texts[1], now)
	past.sent(now, window)
	was := []limits.Kept{{Key: sent, Text: texts[1]}}
	changes := []limits.Change{{Key: sent, Text: encode(past), TTL: max(day, window)}}
	if kept, ok := parseJob(j.key(), texts[0]); ok && kept.ID == j.ID {
		was = append(was, limits.Kept{Key: j.key(), Text: texts[0]})
		changes = append(changes, limits.Change{Key: j.key()})
	}
	ok, err := s.cfg.Records.Swap(ctx, was, changes...)
	return ok && err == nil
}
