// SPDX-License-Identifier: Apache-2.0
//
// Lets packetdrill run in virtual time. It waits for a moment by reading the clock again and again, and
// in the virtual kernel the clock stands while a program computes: such a loop would never end. With
// this library loaded each reading sleeps for a microsecond. A sleep also lets the other programs take
// their turn: what a packet causes in gateway and stack is done before the script's next step.

#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>

static void sleep_ns(long ns)
{
	const struct timespec duration = { .tv_nsec = ns };

	nanosleep(&duration, NULL);
}

__attribute__((constructor)) static void begin(void)
{
	/* Not for the programs that packetdrill starts. */
	unsetenv("LD_PRELOAD");
	/* Sleeps end when they are due, not up to 50 us later. */
	prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
	struct timespec now;

	(void)zone;
	sleep_ns(1000);
	clock_gettime(CLOCK_REALTIME, &now);
	time->tv_sec = now.tv_sec;
	time->tv_usec = now.tv_nsec / 1000;
	return 0;
}

clock_t times(struct tms *buffer)
{
	/* Its unit is 10 ms. */
	sleep_ns(100000);
	return (clock_t)syscall(SYS_times, buffer);
}
