package transport

import (
	"context"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Client makes calls to processes and receives none. It needs neither an address nor a process id.
type Client struct {
	service *service
	pool    *pool
}

// Dial makes a client. Connections are opened when they are needed.
func Dial(cfg Config) *Client {
	cfg.setDefaults()
	return &Client{service: newService(0), pool: newPool(cfg)}
}

// Call calls a process, like Endpoint.Call.
func (c *Client) Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	return c.service.call(ctx, request, func(ctx context.Context) ([]byte, error) {
		address, err := c.pool.resolve(to)
		if err != nil {
			return nil, err
		}
		return c.pool.call(ctx, to, address, request)
	})
}

// Close ends all calls and connections.
func (c *Client) Close() error {
	c.service.close()
	return c.pool.close()
}
