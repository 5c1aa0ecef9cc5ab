package certs

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/zap"
)

func TestLog(t *testing.T) {
	var out bytes.Buffer
	log := newZap(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo})))
	log.Info("for nobody")
	log.Named("x").With(zap.String("identifier", "a.test"), zap.String("remote", "192.0.2.1:5")).
		Error("it failed", zap.Error(errors.New("why")), zap.String("remote_addr", "192.0.2.2:5"), zap.String("user_agent", "curl"))
	got := out.String()
	for _, want := range []string{"level=WARN", `msg="certificate management"`, `detail="it failed"`, "identifier=a.test", "error=why"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	for _, leaked := range []string{"192.0.2", "curl", "for nobody"} {
		if strings.Contains(got, leaked) {
			t.Errorf("%s is in %s", leaked, got)
		}
	}
}
