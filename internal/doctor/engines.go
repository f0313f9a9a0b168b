package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/sandbox/engines"
)

// EngineTried is the answer of an engine that was asked whether it runs.
type EngineTried struct {
	Name string
	Err  error // nil: it answers
}

// AskLimit is how long engines may take to answer.
const AskLimit = 5 * time.Second

// TryEngines asks each kind of engine whether it runs.
func TryEngines(ctx context.Context) []EngineTried { return tryEngines(ctx, AskLimit) }

// tryEngines gives each of them so much time: one may hang, and the next one answer.
func tryEngines(ctx context.Context, limit time.Duration) []EngineTried {
	var tried []EngineTried
	for _, k := range engines.Kinds() {
		tried = append(tried, EngineTried{k.Name, tryEngine(ctx, k, limit)})
	}
	return tried
}

func tryEngine(ctx context.Context, k engines.Kind, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	eng, err := k.Open()
	if err != nil {
		return err
	}
	return errors.Join(eng.Ping(ctx), eng.Close())
}

// Engines says which engine is used, why, and why the others cannot be used.
func Engines(choice string, tried []EngineTried) Finding {
	used, why := choice, "as it is configured"
	if choice == engines.Auto {
		used, why = engines.Docker, "since none answers"
		for _, t := range tried {
			if t.Err == nil {
				used, why = t.Name, "the first of docker, containerd and podman that answers"
				break
			}
		}
		if k, ok := engines.PointedAt(); ok {
			used, why = k.Name, "since "+k.Variable+" says where it is"
		}
	}
	var others []string
	for _, t := range tried {
		switch {
		case t.Name == used:
		case t.Err == nil:
			others = append(others, t.Name+" answers, too.")
		default:
			others = append(others, fmt.Sprintf("Of %s: %s.", t.Name, strings.TrimSuffix(words.OneLine(t.Err.Error()), ".")))
		}
	}
	f := Fine("engines", "%s is used, %s", used, why)
	f.Meaning = strings.Join(append(others, "Another is chosen with --engine, CORRAL_ENGINE or sandbox.engine."), " ")
	return f
}
