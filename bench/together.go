package main

import (
	"context"
	"sync"
)

// crew runs functions side by side. The first error cancels the context of all
// and is what wait returns.
type crew struct {
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
	once   sync.Once
	err    error
}

// newCrew returns a crew and the context its functions must heed.
func newCrew(ctx context.Context) (*crew, context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	return &crew{cancel: cancel}, ctx
}

// run starts one function.
func (c *crew) run(f func() error) {
	c.wg.Go(func() {
		if err := f(); err != nil {
			c.once.Do(func() {
				c.err = err
				c.cancel(err)
			})
		}
	})
}

// wait returns when all functions have.
func (c *crew) wait() error {
	c.wg.Wait()
	c.cancel(nil)
	return c.err
}
