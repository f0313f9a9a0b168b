package corral

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

func TestExitJSON(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const times = `"startedAt":"2026-01-02T03:04:05Z","endedAt":"2026-01-02T03:04:05Z"`
	for _, tt := range []struct {
		exit Exit
		want string
	}{
		{Exit{Reason: ReasonExited}, `{"exitCode":0,"signal":null,"signalName":null,"reason":"exited",` + times + `}`},
		{Exit{Code: 3, Reason: ReasonExited, Orphans: []int{7, 8}}, `{"exitCode":3,"signal":null,"signalName":null,"reason":"exited",` + times + `,"orphans":[7,8]}`},
		{Exit{Code: -1, Signal: 9, Reason: ReasonTimeout}, `{"exitCode":null,"signal":9,"signalName":"SIGKILL","reason":"timeout",` + times + `}`},
		{Exit{Code: -1, Signal: 9, Reason: ReasonOOM, Refused: []string{"/x"}}, `{"exitCode":null,"signal":9,"signalName":"SIGKILL","reason":"oom",` + times + `,"refused":["/x"]}`},
	} {
		tt.exit.StartedAt, tt.exit.EndedAt = at, at
		b, err := json.Marshal(tt.exit)
		if err != nil || string(b) != tt.want {
			t.Errorf("%s, %v, want %s", b, err, tt.want)
		}
		back := Exit{Code: 99, Signal: 99, Orphans: []int{99}}
		if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(back, tt.exit) {
			t.Errorf("%s: %+v, %v, want %+v", b, back, err, tt.exit)
		}
	}
	// As versions before this one kept it.
	for text, want := range map[string]Exit{
		`{"exitCode":3,"signal":0,"reason":"exited"}`:   {Code: 3, Reason: ReasonExited},
		`{"exitCode":-1,"signal":9,"reason":"timeout"}`: {Code: -1, Signal: 9, Reason: ReasonTimeout},
	} {
		var got Exit
		if err := json.Unmarshal([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{`{"exitCode":"3"}`, `[]`, `{"signal":1.5}`} {
		if err := json.Unmarshal([]byte(text), new(Exit)); err == nil {
			t.Errorf("%s is an Exit", text)
		}
	}
}
