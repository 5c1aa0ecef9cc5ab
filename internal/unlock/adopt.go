package unlock

import (
	"context"
	"log/slog"
	"time"

	"authgate/limits"
)

// adoptPage is how many jobs are looked at in one step.
const adoptPage = 100

// adopt looks through the jobs of all processes for those whose owners have fallen silent.
func (s *Service) adopt() {
	cursor := ""
	for range maxJobs / adoptPage {
		next, ok := s.adoptFrom(cursor)
		if !ok || next == "" {
			break
		}
		cursor = next
	}
	s.start()
}

func (s *Service) adoptFrom(cursor string) (next string, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), storeWithin)
	defer cancel()
	keys, next, err := s.cfg.Records.List(ctx, jobsIndex, cursor, adoptPage)
	if err != nil || len(keys) == 0 {
		return next, err == nil
	}
	texts, err := s.cfg.Records.Load(ctx, keys...)
	if err != nil {
		return "", false
	}
	for i, key := range keys {
		if _, mine := s.jobs[key]; mine || texts[i] == "" {
			continue
		}
		select {
		case <-s.closing:
			return "", false
		default:
			s.adoptOne(key, texts[i])
		}
	}
	return next, true
}

// adoptOne takes a job over if its owner's time is up.
func (s *Service) adoptOne(key, text string) {
	ctx, cancel := context.WithTimeout(context.Background(), storeWithin)
	defer cancel()
	was := []limits.Kept{{Key: key, Text: text}}
	j, ok := parseJob(key, text)
	now := time.Now()
	switch {
	case !ok: // not ours to read
		_, _ = s.cfg.Records.Swap(ctx, was, limits.Change{Key: key})
		return
	case now.UnixMilli() < j.Until || len(s.jobs) >= maxJobs:
		return
	case j.Sending:
		if s.enter(j) {
			s.cfg.Count(Unsure)
			s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "unlock notice interrupted, not sent again", slog.String("realm", j.Realm),
				slog.String("policy", j.Policy), s.cfg.Names.Name("target", j.Target))
		}
		return
	}
	j.Owner = s.owner
	j.wait(now)
	if ok, err := s.cfg.Records.Swap(ctx, was, j.change(now)); ok && err == nil {
		s.jobs[key] = j
	}
}
