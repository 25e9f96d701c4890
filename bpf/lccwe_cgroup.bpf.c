// SPDX-License-Identifier: GPL-2.0
/*
 * Gives each new TCP socket of a control group a congestion control by its name, as the
 * namespace's default would; a program of the socket's may choose another one later.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define SOL_TCP 6
#define TCP_CONGESTION 13
#define CA_NAME_BYTES 16

/* Written before loading; the last byte stays 0. */
const volatile char chosen_name[CA_NAME_BYTES] = "holdfast_lccwe";

SEC("sockops")
int choose(struct bpf_sock_ops *socket)
{
	char name[CA_NAME_BYTES];

	/* Before its SYN, or with the handshake's end: but for TCP Fast Open nothing was sent that a window limits. */
	if (socket->op != BPF_SOCK_OPS_TCP_CONNECT_CB && socket->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		return 1;
	for (int i = 0; i < CA_NAME_BYTES; i++)
		name[i] = chosen_name[i];
	/* If there is none of the name any more, the socket keeps what it has. */
	bpf_setsockopt(socket, SOL_TCP, TCP_CONGESTION, name, sizeof(name));
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
