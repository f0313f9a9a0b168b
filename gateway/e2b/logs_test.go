package e2b

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/session"
)

func TestLogs(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(1_700_000_000+int64(second), 0) }
	ended := at(3)
	var list []sandboxLog
	for _, st := range []session.Status{
		{ID: "i.a", Command: "make", PID: 7, StartedAt: at(1), EndedAt: &ended, Outcome: session.Outcome{Exit: &corral.Exit{Code: 2, Reason: corral.ReasonExited}}},
		{ID: "i.b", Command: "true", StartedAt: at(2), EndedAt: &ended, Outcome: session.Outcome{Exit: &corral.Exit{Reason: corral.ReasonExited}}},
		{ID: "i.c", Command: "lost", StartedAt: at(4), EndedAt: &ended, Outcome: session.Outcome{State: session.Unknown}},
		{ID: "i.d", Command: "sleep", StartedAt: at(5), Outcome: session.Outcome{State: session.Running}},
	} {
		list = append(list, logsOf(st)...)
	}
	const whole = "info started: make, info started: true, warn exit code 2: make, info exit code 0: true, warn unknown: lost, info started: lost, info started: sleep"
	for query, want := range map[string]string{
		"":                           whole,
		"limit=2":                    "info started: make, info started: true",
		"limit=0":                    "",
		"limit=9999":                 whole,
		"level=warn":                 "warn exit code 2: make, warn unknown: lost",
		"level=error":                "",
		"level=debug":                whole,
		"search=make":                "info started: make, warn exit code 2: make",
		"cursor=1700000004000":       "info started: lost, info started: sleep",
		"direction=backward&limit=2": "info started: sleep, info started: lost",
		"direction=backward&cursor=1700000001500": "info started: make",
		"direction=forward&search=nothing":        "",
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parseLogFilter(q, "cursor")
		if err != nil {
			t.Fatal(query, err)
		}
		var texts []string
		for _, e := range f.of(append([]sandboxLog{}, list...)) {
			texts = append(texts, fmt.Sprint(e.Level, " ", e.Message))
		}
		if got := strings.Join(texts, ", "); got != want {
			t.Errorf("%q: %s\nwant %s", query, got, want)
		}
	}
	if list[0].Fields["session"] != "i.a" || list[0].Fields["pid"] != "7" {
		t.Errorf("%+v", list[0])
	}
	for _, query := range []string{"limit=x", "limit=-1", "cursor=x", "cursor=-1", "level=loud", "direction=up"} {
		q, _ := url.ParseQuery(query)
		if _, err := parseLogFilter(q, "cursor"); !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("%q: %v", query, err)
		}
	}
}
