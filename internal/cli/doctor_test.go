package cli

import (
	"context"
	"testing"

	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/doctor"
)

// fakeImages is an images.Engine that has one image, or fails.
type fakeImages struct {
	images.Engine
	list  []images.EngineImage
	image images.EngineImage
	err   error
}

func (f fakeImages) Images(context.Context, string) ([]images.EngineImage, error) {
	return f.list, nil
}

func (f fakeImages) LastStep(context.Context, string) (string, error) {
	return "built by Corral from recipe " + f.list[0].Labels[images.LabelRecipe], nil
}

func (f fakeImages) Image(context.Context, string) (images.EngineImage, error) {
	return f.image, f.err
}

func TestDiagnosis(t *testing.T) {
	for want, of := range map[doctor.Severity][]doctor.Severity{
		doctor.OK: {doctor.OK, doctor.OK}, doctor.Warn: {doctor.OK, doctor.Warn, doctor.OK}, doctor.Fail: {doctor.Warn, doctor.Fail, doctor.Warn},
	} {
		var checks []doctor.Finding
		for _, s := range of {
			checks = append(checks, doctor.Finding{Status: s})
		}
		if got := newDiagnosis(checks).Status; got != want {
			t.Errorf("%v: %s", of, got)
		}
	}
}
